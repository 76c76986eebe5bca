// The tensors of one quantized module, each looked up by the end of its name and checked.
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

  /// Without a check of its shape. Throws Error where it is missing or of another type.
  TensorView get(std::string_view part, Types types) const;

  /// Throws Error where the shape is another, too.
  TensorView get(std::string_view part, Types types, std::initializer_list<std::size_t> shape) const;

  /// The same of a tensor of F16, BF16 or F32.
  TensorView get_floats(std::string_view part, std::initializer_list<std::size_t> shape) const;

  /// Its values in F32. Throws Error where one is not finite.
  std::vector<float> floats(std::string_view part, const TensorView& view) const;

  std::string name(std::string_view part) const;
  [[noreturn]] void fail(std::string_view part, const std::string& problem) const;

 private:
  const files::Checkpoint& checkpoint_;
  std::string module_;
};

/// Size of a tensor's axis; 0 where it has none of that number.
std::size_t axis_size(const TensorView& view, std::size_t axis);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_MODULE_TENSORS_H_
