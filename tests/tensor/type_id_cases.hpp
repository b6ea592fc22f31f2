// Types of another source file, for type_id_test.cpp.
#pragma once

#include <utility>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
std::pair<TypeId, TypeId> type_ids_of_another_file();
}
