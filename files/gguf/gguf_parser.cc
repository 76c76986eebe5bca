#include "files/gguf/gguf_parser.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "files/gguf/tensor_types.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::files {
namespace {

using nlohmann::json;

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kLargestAlignment = 65536;
constexpr std::uint32_t kMostDimensions = 4;  // the format's own limit
constexpr int kDeepestArray = 4;              // arrays of arrays are allowed; files have at most two levels

// The fewest bytes of a tensor's entry (name, dimensions, type, offset) and of a metadata entry (key, type, value).
constexpr std::uint64_t kLeastTensorBytes = 24;
constexpr std::uint64_t kLeastMetadataBytes = 13;

// Types of metadata values, numbered as in files.
enum class ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kCount
};

// Returns the fewest bytes of a value of this type.
std::size_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kArray:
      return 12;  // element type and count
    default:
      return 8;  // a string begins with its length
  }
}

bool has_fixed_size(ValueType type) {
  return type != ValueType::kString && type != ValueType::kArray;
}

// Reads forward through the bytes; every step first checks that they exist.
class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view context, std::size_t position = 0)
      : file_(file), context_(context), position_(position) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return file_.size() - position_; }

  template <typename T>
  T number(std::string_view what) {
    need(sizeof(T), what);
    T value{};
    std::memcpy(&value, file_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  std::string_view string(std::string_view what) {
    const std::size_t start = position_;
    const auto length = number<std::uint64_t>(what);
    if (length > left()) fail(start, concat(what, " of ", length, " bytes runs past the end of the file"));
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + position_, length);
    position_ += length;
    return text;
  }

  std::string name(std::string_view what) {
    const std::size_t start = position_;
    const std::string_view text = string(what);
    if (text.empty() || !is_utf8(text)) fail(start, concat(what, " ", in_quotes(text), " is not a name in UTF-8"));
    return std::string(text);
  }

  ValueType value_type() {
    const std::size_t start = position_;
    const auto number_of_type = number<std::uint32_t>("value type");
    if (number_of_type >= static_cast<std::uint32_t>(ValueType::kCount)) {
      fail(start, concat("unknown value type ", number_of_type));
    }
    return static_cast<ValueType>(number_of_type);
  }

  void skip_value(ValueType type, int depth = 0) {
    if (type == ValueType::kString) {
      string("string");
    } else if (type == ValueType::kArray) {
      const auto [element, count] = array_start(depth);
      if (has_fixed_size(element)) {
        position_ += count * least_bytes(element);
      } else {
        for (std::size_t i = 0; i < count; ++i) skip_value(element, depth + 1);
      }
    } else {
      need(least_bytes(type), "value");
      position_ += least_bytes(type);
    }
  }

  json value(ValueType type, int depth = 0) {
    switch (type) {
      case ValueType::kU8:
        return number<std::uint8_t>("value");
      case ValueType::kI8:
        return number<std::int8_t>("value");
      case ValueType::kU16:
        return number<std::uint16_t>("value");
      case ValueType::kI16:
        return number<std::int16_t>("value");
      case ValueType::kU32:
        return number<std::uint32_t>("value");
      case ValueType::kI32:
        return number<std::int32_t>("value");
      case ValueType::kF32:
        return number<float>("value");
      case ValueType::kU64:
        return number<std::uint64_t>("value");
      case ValueType::kI64:
        return number<std::int64_t>("value");
      case ValueType::kF64:
        return number<double>("value");
      case ValueType::kBool:
        return boolean();
      case ValueType::kString:
        return text_value();
      default:
        break;
    }
    const auto [element, count] = array_start(depth);
    json::array_t values;
    values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) values.push_back(value(element, depth + 1));
    return values;
  }

  // Returns whether the value at the current position is an array that config leaves out: a long one, or one of arrays,
  // which may be long themselves.
  bool at_long_array(ValueType type) const {
    if (type != ValueType::kArray) return false;
    Reader ahead = *this;
    const ArrayStart start = ahead.array_start(0);
    return start.count > kLongestConfigArray || start.element == ValueType::kArray;
  }

  // Returns the elements of the array at the current position; 0 for a value of another type.
  std::size_t array_size(ValueType type) const {
    if (type != ValueType::kArray) return 0;
    Reader ahead = *this;
    return ahead.array_start(0).count;
  }

  [[noreturn]] void fail(std::size_t byte, const std::string& problem) const {
    throw Error(context_, concat("byte ", byte, ": ", problem));
  }

 private:
  struct ArrayStart {
    ValueType element;
    std::size_t count;
  };

  void need(std::size_t bytes, std::string_view what) const {
    if (bytes > left()) fail(position_, concat("the file ends inside a ", what, "; truncated?"));
  }

  ArrayStart array_start(int depth) {
    const std::size_t start = position_;
    if (depth >= kDeepestArray) fail(start, concat("arrays nested more than ", kDeepestArray, " deep"));
    const ValueType element = value_type();
    const auto count = number<std::uint64_t>("array length");
    if (count > left() / least_bytes(element)) {
      fail(start, concat("an array of ", count, " elements runs past the end of the file"));
    }
    return {element, count};
  }

  bool boolean() {
    const std::size_t start = position_;
    const auto byte = number<std::uint8_t>("value");
    if (byte > 1) fail(start, concat("a truth value is 0 or 1, not ", int{byte}));
    return byte == 1;
  }

  std::string text_value() {
    const std::size_t start = position_;
    const std::string_view text = string("string");
    if (!is_utf8(text)) fail(start, concat("the string ", in_quotes(text), " is not UTF-8"));
    return std::string(text);
  }

  std::span<const std::byte> file_;
  std::string_view context_;
  std::size_t position_;
};

struct Counts {
  std::uint64_t tensors;
  std::uint64_t metadata;
};

Counts read_header(Reader& reader) {
  const auto magic = reader.number<std::array<char, 4>>("signature");
  if (std::string_view(magic.data(), magic.size()) != "GGUF") reader.fail(0, "does not begin with \"GGUF\"");
  const auto version = reader.number<std::uint32_t>("version");
  if (version == std::byteswap(std::uint32_t{2}) || version == std::byteswap(std::uint32_t{3})) {
    reader.fail(4, "a big-endian GGUF, which ballast does not read; convert it to little-endian");
  }
  if (version != 2 && version != 3)
    reader.fail(4, concat("GGUF version ", version, "; ballast reads versions 2 and 3"));
  const auto tensors = reader.number<std::uint64_t>("tensor count");
  const auto metadata = reader.number<std::uint64_t>("metadata count");
  if (tensors > reader.left() / kLeastTensorBytes || metadata > reader.left() / kLeastMetadataBytes) {
    reader.fail(8, concat(tensors, " tensors and ", metadata, " metadata entries cannot be in the ", reader.left(),
                          " bytes that follow"));
  }
  return {tensors, metadata};
}

void read_metadata(Reader& reader, std::uint64_t count, GgufContent& content) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t start = reader.position();
    const std::string key = reader.name("metadata key");
    if (!content.value_positions.emplace(key, reader.position()).second) {
      reader.fail(start, concat("metadata key ", in_quotes(key), " is there twice"));
    }
    const ValueType type = reader.value_type();
    if (reader.at_long_array(type)) {
      reader.skip_value(type);
    } else {
      content.config.emplace(key, reader.value(type));
    }
  }
}

std::uint64_t data_alignment(const GgufContent& content, const Reader& reader) {
  const auto found = content.config.find("general.alignment");
  if (found == content.config.end()) return kDefaultAlignment;
  const std::uint64_t alignment = found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kLargestAlignment) {
    reader.fail(content.value_positions.at("general.alignment"),
                concat("general.alignment is ", in_quotes(found->dump()), ", not a power of two from 8 to ",
                       kLargestAlignment));
  }
  return alignment;
}

struct TensorEntry {
  std::string name;
  std::string type;
  std::optional<DType> dtype;  // nullopt for a type that is not read
  Shape shape;
  std::uint64_t offset;  // from the start of the data
  std::size_t position;  // of the offset in the file, for messages
};

void read_tensor_type(Reader& reader, TensorEntry& entry) {
  const auto number = reader.number<std::uint32_t>("tensor type");
  const auto* found = std::ranges::find(kTensorTypes, number, &TensorType::number);
  const bool known = found != std::end(kTensorTypes);
  entry.type = known ? std::string(found->name) : concat("unknown type ", number);
  if (known) entry.dtype = found->dtype;
}

TensorEntry read_tensor_entry(Reader& reader, std::uint64_t alignment) {
  TensorEntry entry;
  entry.name = reader.name("tensor name");
  const std::size_t start = reader.position();
  const auto dimensions = reader.number<std::uint32_t>("number of dimensions");
  if (dimensions > kMostDimensions) {
    reader.fail(start, concat("tensor ", in_quotes(entry.name), " has ", dimensions, " dimensions; at most ",
                              kMostDimensions, " are allowed"));
  }
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto size = reader.number<std::uint64_t>("dimension");
    if (size > std::uint64_t{INT64_MAX})
      reader.fail(start, concat("tensor ", in_quotes(entry.name), " has size ", size));
    entry.shape.insert(entry.shape.begin(), static_cast<std::int64_t>(size));  // innermost first in the file
  }
  read_tensor_type(reader, entry);
  entry.position = reader.position();
  entry.offset = reader.number<std::uint64_t>("tensor offset");
  if (entry.offset % alignment != 0) {
    reader.fail(entry.position, concat("tensor ", in_quotes(entry.name), " at offset ", entry.offset,
                                       " is not aligned to ", alignment, " bytes"));
  }
  return entry;
}

// Refuses a matrix in NVFP4 with a separate scale tensor, which would be ignored.
void refuse_scaled_tensors(const TensorTable& tensors, std::string_view context) {
  constexpr std::string_view kWeight = ".weight";
  for (const auto& [name, view] : tensors) {
    if (view.dtype != DType::kNVFP4 || !name.ends_with(kWeight)) continue;
    const std::string scale = name.substr(0, name.size() - kWeight.size()) + ".scale";
    if (!tensors.contains(scale)) continue;
    throw Error(tensor_context(context, name), concat("NVFP4 with a scale of its own (", in_quotes(scale),
                                                      ") is not supported: convert from the Hugging Face checkpoint"));
  }
}

// Adds a tensor of an unknown type. Its size is unknown, so it extends to the next one. `offsets` are those of all
// tensors, ascending.
void add_unread_tensor(const TensorEntry& entry, const std::vector<std::uint64_t>& offsets, std::size_t data_bytes,
                       GgufContent& content) {
  const auto next = std::ranges::upper_bound(offsets, entry.offset);
  const std::uint64_t end = next == offsets.end() ? data_bytes : std::min<std::uint64_t>(*next, data_bytes);
  content.unread.emplace(
      entry.name, UnreadTensor{.type = entry.type, .shape = entry.shape, .bytes = end - std::min(end, entry.offset)});
}

void add_tensor(const TensorEntry& entry, std::span<const std::byte> data, std::size_t data_start,
                std::string_view context, GgufContent& content) {
  const std::string place_of_tensor = tensor_context(context, entry.name);
  const std::size_t bytes = tensor_bytes(*entry.dtype, entry.shape, place_of_tensor);
  if (entry.offset > data.size() || bytes > data.size() - entry.offset) {
    throw Error(place_of_tensor,
                concat("byte ", entry.position, ": ", bytes, " bytes at offset ", entry.offset, " are outside the ",
                       data.size(), " bytes of data at byte ", data_start, "; truncated?"));
  }
  TensorView view{*entry.dtype, entry.shape, data.subspan(entry.offset, bytes)};
  if (!content.tensors.emplace(entry.name, std::move(view)).second) {
    throw Error(place_of_tensor, concat("byte ", entry.position, ": is there twice"));
  }
}

}  // namespace

GgufContent parse_gguf(std::span<const std::byte> file, std::string_view context) {
  Reader reader(file, context);
  GgufContent content;
  const Counts counts = read_header(reader);
  read_metadata(reader, counts.metadata, content);
  const std::uint64_t alignment = data_alignment(content, reader);

  std::vector<TensorEntry> entries;
  for (std::uint64_t i = 0; i < counts.tensors; ++i) entries.push_back(read_tensor_entry(reader, alignment));

  const std::size_t data_start = (reader.position() + alignment - 1) / alignment * alignment;
  const auto data = data_start <= file.size() ? file.subspan(data_start) : std::span<const std::byte>();
  std::vector<std::uint64_t> offsets;
  for (const TensorEntry& entry : entries) offsets.push_back(entry.offset);
  std::ranges::sort(offsets);
  for (const TensorEntry& entry : entries) {
    if (entry.dtype) {
      add_tensor(entry, data, data_start, context, content);
    } else {
      add_unread_tensor(entry, offsets, data.size(), content);
    }
  }
  refuse_overlaps(content.tensors, file, context);
  refuse_scaled_tensors(content.tensors, context);
  return content;
}

std::size_t gguf_array_size(std::span<const std::byte> file, std::size_t position, std::string_view context) {
  Reader reader(file, context, position);
  const ValueType type = reader.value_type();
  return reader.array_size(type);
}

json read_gguf_value(std::span<const std::byte> file, std::size_t position, std::string_view context) {
  Reader reader(file, context, position);
  const ValueType type = reader.value_type();
  return reader.value(type);
}

}  // namespace ballast::files
