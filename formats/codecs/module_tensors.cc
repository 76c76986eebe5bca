#include "formats/codecs/module_tensors.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"
#include "formats/decode_floats.h"

namespace ballast::formats {

ModuleTensors::ModuleTensors(const files::Checkpoint& checkpoint, std::string module)
    : checkpoint_(checkpoint), module_(std::move(module)) {}

std::string ModuleTensors::name(std::string_view part) const {
  return module_ + "." + std::string(part);
}

bool ModuleTensors::contains(std::string_view part) const {
  return checkpoint_.contains(name(part));
}

void ModuleTensors::fail(std::string_view part, const std::string& problem) const {
  throw Error(checkpoint_.path().string() + ": " + name(part), problem);
}

TensorView ModuleTensors::get(std::string_view part, Types types) const {
  TensorView view = checkpoint_.tensor(name(part));
  if (std::ranges::find(types, view.dtype) != types.end()) return view;
  std::string allowed;
  for (const DType type : types) allowed += (allowed.empty() ? "" : " or ") + std::string(dtype_info(type).name);
  fail(part, "has type " + std::string(dtype_info(view.dtype).name) + ", must be " + allowed);
}

TensorView ModuleTensors::get(std::string_view part, Types types, std::initializer_list<std::size_t> shape) const {
  TensorView view = get(part, types);
  Shape expected;
  for (const std::size_t size : shape) expected.push_back(static_cast<std::int64_t>(size));
  if (view.shape != expected) {
    fail(part, "has shape " + shape_string(view.shape) + ", expected " + shape_string(expected));
  }
  return view;
}

TensorView ModuleTensors::get_floats(std::string_view part, std::initializer_list<std::size_t> shape) const {
  return get(part, {DType::kF16, DType::kBF16, DType::kF32}, shape);
}

std::vector<float> ModuleTensors::floats(std::string_view part, const TensorView& view) const {
  std::vector<float> values(static_cast<std::size_t>(element_count(view.shape)));
  decode_floats(view, checkpoint_.path().string() + ": " + name(part), values.data());
  return values;
}

std::size_t axis_size(const TensorView& view, std::size_t axis) {
  return axis < view.shape.size() ? static_cast<std::size_t>(view.shape[axis]) : 0;
}

}  // namespace ballast::formats
