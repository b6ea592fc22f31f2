#include "tensor/type_id_cases.hpp"

namespace weft {
namespace {

struct OfOneFile {};

TEST(TypeId, IsEqualForTheSameTypeAlone) {
  const TypeId all[] = {TypeId::of<nn::Linear>(),
                        TypeId::of<nn::Conv2d>(),
                        TypeId::of<OfOneFile>(),
                        TypeId::of<nn::ModuleList<nn::Linear>>(),
                        TypeId::of<nn::ModuleList<nn::Conv2d>>(),
                        TypeId::of<int>(),
                        TypeId::of<unsigned>()};
  for (const TypeId& a : all) {
    for (const TypeId& b : all) EXPECT_EQ(a == b, &a == &b) << a.name() << " " << b.name();
  }
}

TEST(TypeId, DistinguishesTypesOfOneNameInTwoFiles) {
  const auto [linear, of_one_file] = type_ids_of_another_file();
  EXPECT_TRUE(linear == TypeId::of<nn::Linear>());
  EXPECT_EQ(of_one_file.name(), TypeId::of<OfOneFile>().name());
  EXPECT_FALSE(of_one_file == TypeId::of<OfOneFile>());
}

TEST(TypeId, HasTheNameOfTheClass) {
  struct Local : nn::Layer<Local> {
    Tensor forward(const Tensor& x) const { return x; }
  };
  EXPECT_EQ(TypeId::of<nn::Linear>().name(), "weft::nn::Linear");
  EXPECT_EQ(Local().class_name(), "Local");
  EXPECT_EQ(nn::ModuleList<nn::Linear>().class_name(), "ModuleList");
}

}  // namespace
}  // namespace weft
