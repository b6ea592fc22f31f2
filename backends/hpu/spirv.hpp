// A SPIR-V module cut down to one of its kernels, so that a driver builds only the called kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::spirv {

using Words = std::span<const uint32_t>;

/// The names of the kernels (entry points) of a valid module, in its order.
std::vector<std::string> kernel_names(Words module);

/// A module with the kernel `name`, the functions that it calls and the types, constants and variables that these use;
/// nothing where `module` has no such kernel. Equal modules give equal words.
std::vector<uint32_t> only_kernel(Words module, std::string_view name);

}  // namespace weft::spirv
