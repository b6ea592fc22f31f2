#include <torch/nn/modules/any.h>

#include <cxxabi.h>

namespace torch::nn::detail {

std::string type_name(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : type.name();
  std::free(text);
  return name;
}

void raise_argument_type(size_t i, const std::type_info& expected, const std::type_info& received) {
  TORCH_CHECK(false, "Expected argument #", i, " to be of type ", type_name(expected), ", but received value of type ",
              type_name(received));
}

// The wording is libtorch's.
void check_argument_count(Module& module, std::vector<AnyValue>& arguments, size_t expected) {
  if (module._forward_has_default_args()) {
    const size_t required = module._forward_num_required_args();
    TORCH_CHECK(arguments.size() >= required && arguments.size() <= expected, module.name(),
                "'s forward() method expects at least ", required, " argument(s) and at most ", expected,
                " argument(s), but received ", arguments.size(), ".");
    arguments = module._forward_populate_default_args(std::move(arguments));
    return;
  }
  TORCH_CHECK(arguments.size() == expected, module.name(), "'s forward() method expects ", expected,
              " argument(s), but received ", arguments.size(), ".",
              arguments.size() < expected
                  ? c10::str(" If ", module.name(),
                             "'s forward() method has default arguments, please make sure the forward() method is "
                             "declared with a corresponding `FORWARD_HAS_DEFAULT_ARGS` macro.")
                  : std::string());
}

}  // namespace torch::nn::detail
