#include "files/gguf/gguf_writer.h"

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ballast/error.h"
#include "files/gguf/tensor_types.h"

namespace ballast::files {
namespace {

// The format's numbers of metadata types.
enum class FieldType : std::uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kGgufAlignment = 32;

std::uint64_t gguf_aligned(std::uint64_t position) {
  return (position + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

template <typename T>
void append_number(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_text(std::string_view text, std::string& bytes) {
  append_number(std::uint64_t{text.size()}, bytes);
  bytes += text;
}

FieldType field_type(std::uint32_t) {
  return FieldType::kU32;
}
FieldType field_type(std::int32_t) {
  return FieldType::kI32;
}
FieldType field_type(float) {
  return FieldType::kF32;
}
FieldType field_type(bool) {
  return FieldType::kBool;
}
FieldType field_type(const std::string&) {
  return FieldType::kString;
}

template <typename T>
void append_value(const T& value, std::string& bytes) {
  if constexpr (std::is_same_v<T, std::string>) {
    append_text(value, bytes);
  } else {
    append_number(value, bytes);
  }
}

template <typename T>
void append_typed(const T& value, std::string& bytes) {
  append_number(field_type(value), bytes);
  append_value(value, bytes);
}

template <typename T>
void append_typed(const std::vector<T>& list, std::string& bytes) {
  append_number(FieldType::kArray, bytes);
  append_number(field_type(T{}), bytes);
  append_number(std::uint64_t{list.size()}, bytes);
  for (const T& element : list) append_value(element, bytes);
}

std::string encoded_fields(std::span<const GgufField> fields) {
  std::string bytes;
  for (const GgufField& field : fields) {
    append_text(field.key, bytes);
    std::visit([&](const auto& value) { append_typed(value, bytes); }, field.value);
  }
  return bytes;
}

std::string header_of(const std::string& fields, std::size_t field_count, std::span<const TensorPlan> plan) {
  std::string bytes = "GGUF";
  append_number(kVersion, bytes);
  append_number(std::uint64_t{plan.size()}, bytes);
  append_number(std::uint64_t{field_count}, bytes);
  bytes += fields;
  std::uint64_t position = 0;
  for (const TensorPlan& tensor : plan) {
    append_text(tensor.name, bytes);
    append_number(static_cast<std::uint32_t>(tensor.shape.size()), bytes);
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) append_number(*size, bytes);
    append_number(gguf_type_number(tensor.dtype), bytes);
    append_number(position, bytes);
    position += gguf_aligned(planned_bytes(tensor, tensor.name));
  }
  bytes.resize(gguf_aligned(bytes.size()));
  return bytes;
}

std::uint64_t data_bytes(std::span<const TensorPlan> plan) {
  std::uint64_t bytes = 0;
  for (const TensorPlan& tensor : plan) bytes += gguf_aligned(planned_bytes(tensor, tensor.name));
  return bytes;
}

}  // namespace

std::uint64_t planned_gguf_bytes(std::span<const GgufField> fields, std::span<const TensorPlan> plan) {
  return header_of(encoded_fields(fields), fields.size(), plan).size() + data_bytes(plan);
}

GgufWriter::GgufWriter(const std::filesystem::path& path, std::span<const GgufField> fields,
                       std::vector<TensorPlan> plan)
    : fields_(encoded_fields(fields)), field_count_(fields.size()), plan_(std::move(plan)), file_(path) {
  data_begin_ = header_of(fields_, field_count_, plan_).size();
  file_.reserve(data_begin_ + data_bytes(plan_));
}

void GgufWriter::write(DType dtype, std::span<const std::byte> bytes) {
  TensorPlan& tensor = plan_.at(next_++);
  tensor.dtype = dtype;
  // With another size, all later tensors would be at other offsets than in the header.
  if (planned_bytes(tensor, tensor.name) != bytes.size()) {
    throw Error(tensor.name, "has " + std::to_string(bytes.size()) + " bytes, its shape and type make " +
                                 std::to_string(planned_bytes(tensor, tensor.name)));
  }
  file_.write_at(data_begin_ + position_, bytes);
  const std::uint64_t padding = gguf_aligned(bytes.size()) - bytes.size();
  const std::vector<std::byte> zeros(padding);
  if (padding > 0) file_.write_at(data_begin_ + position_ + bytes.size(), zeros);
  position_ += bytes.size() + padding;
}

std::uint64_t GgufWriter::finish() {
  if (next_ != plan_.size()) throw Error(plan_[next_].name, "was planned and not written");
  const std::string header = header_of(fields_, field_count_, plan_);
  file_.write_at(0, std::as_bytes(std::span(header)));
  file_.sync_and_close();
  return data_begin_ + position_;
}

}  // namespace ballast::files
