// The tensors of one quantized module, which are looked up by the end of their names and checked.
#ifndef BALLAST_FORMATS_CODECS_MODULE_TENSORS_H_
#define BALLAST_FORMATS_CODECS_MODULE_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"

namespace ballast::formats {

class ModuleTensors {
 public:
  using Types = std::initializer_list<DType>;

  ModuleTensors(const files::Checkpoint& checkpoint, std::string module);

  bool contains(std::string_view part) const;

  /// Returns a tensor without a check of its shape. Throws Error if it is missing or has another type.
  TensorView get(std::string_view part, Types types) const;

  /// Does the same, and throws Error if the shape is another.
  TensorView get(std::string_view part, Types types, std::initializer_list<std::size_t> shape) const;

  /// Does the same for a tensor of F16, BF16 or F32.
  TensorView get_floats(std::string_view part, std::initializer_list<std::size_t> shape) const;

  /// Returns the values of a tensor in F32. Throws Error if one is not finite.
  std::vector<float> floats(std::string_view part, const TensorView& view) const;

  std::string name(std::string_view part) const;
  [[noreturn]] void fail(std::string_view part, const std::string& problem) const;

 private:
  const files::Checkpoint& checkpoint_;
  std::string module_;
};

/// Returns the size of a tensor's axis; 0 if it has no such axis.
std::size_t axis_size(const TensorView& view, std::size_t axis);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_MODULE_TENSORS_H_
