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

template <class T>
TypeId type_of(const T&) {
  return TypeId::of<T>();
}

TEST(TypeId, DistinguishesTypesOfOneNameInOneFunction) {
  auto twice = [](const Tensor& x) { return x * 2; };
  auto thrice = [](const Tensor& x) { return x * 3; };
  EXPECT_FALSE(type_of(twice) == type_of(thrice));
  EXPECT_FALSE(TypeId::of<nn::Function<decltype(twice)>>() == TypeId::of<nn::Function<decltype(thrice)>>());
  const nn::Sequential net(twice);
  EXPECT_THROW((void)net[0].as<nn::Function<decltype(thrice)>>(), ValueError);
  std::vector<TypeId> of_blocks;
  {
    struct Net {};
    of_blocks.push_back(TypeId::of<Net>());
  }
  {
    struct Net {};
    of_blocks.push_back(TypeId::of<Net>());
  }
  EXPECT_EQ(of_blocks[0].name(), of_blocks[1].name());
  EXPECT_FALSE(of_blocks[0] == of_blocks[1]);
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
