#include "files/torch_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ballast/error.h"

namespace ballast::files {

namespace {

/// Reads little-endian numbers and bytes of a file from a position on.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view context) : bytes_(bytes), context_(context) {}

  std::size_t position() const { return position_; }
  void seek(std::size_t position) { position_ = position; }

  std::span<const std::byte> take(std::size_t count) {
    if (position_ > bytes_.size() || count > bytes_.size() - position_) fail("ends too early");
    const std::span<const std::byte> taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }
  std::string_view take_text(std::size_t count) {
    const std::span<const std::byte> taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string_view take_line() {
    const std::size_t begin = position_;
    while (take(1).front() != std::byte{'\n'}) {
    }
    return {reinterpret_cast<const char*>(bytes_.data()) + begin, position_ - begin - 1};
  }
  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof(Number)).data(), sizeof(Number));
    return value;
  }

  [[noreturn]] void fail(const std::string& problem) const { throw Error(std::string(context_), problem); }

 private:
  std::span<const std::byte> bytes_;
  std::string_view context_;
  std::size_t position_ = 0;
};

using Parts = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// Returns the files in a zip archive by their names without the first folder, which all of them share.
Parts read_archive(std::span<const std::byte> file, std::string_view context) {
  constexpr std::uint32_t kEnd = 0x06054b50, kEntry = 0x02014b50, kFile = 0x04034b50;
  constexpr std::size_t kEndSize = 22;
  constexpr std::size_t kMostComment = 65535;
  ByteReader reader(file, context);
  if (file.size() < kEndSize) reader.fail("is no zip archive, as torch.save writes");
  std::size_t end = file.size() - kEndSize;
  const std::size_t first = end - std::min(end, kMostComment);
  const auto is_end = [&] {
    reader.seek(end);
    return reader.number<std::uint32_t>() == kEnd;
  };
  while (!is_end()) {
    if (end == first) reader.fail("is no zip archive, as torch.save writes");
    --end;
  }
  reader.seek(end + 10);
  const auto count = reader.number<std::uint16_t>();
  reader.take(4);
  std::size_t entry = reader.number<std::uint32_t>();
  Parts parts;
  for (std::size_t i = 0; i < count; ++i) {
    reader.seek(entry);
    if (reader.number<std::uint32_t>() != kEntry) reader.fail("has a damaged directory");
    reader.seek(entry + 10);
    const auto method = reader.number<std::uint16_t>();
    reader.seek(entry + 24);
    const auto size = reader.number<std::uint32_t>();
    const auto name_size = reader.number<std::uint16_t>();
    const auto extra_size = reader.number<std::uint16_t>();
    const auto comment_size = reader.number<std::uint16_t>();
    reader.take(8);
    const auto place = reader.number<std::uint32_t>();
    const std::string_view name = reader.take_text(name_size);
    entry = reader.position() + extra_size + comment_size;
    if (method != 0) reader.fail("has compressed parts");
    reader.seek(place);
    if (reader.number<std::uint32_t>() != kFile) reader.fail("has a damaged part '" + std::string(name) + "'");
    reader.seek(std::size_t{place} + 26);
    const std::size_t skipped = std::size_t{reader.number<std::uint16_t>()} + reader.number<std::uint16_t>();
    reader.take(skipped);
    parts[std::string(name.substr(name.find('/') + 1))] = reader.take(size);
  }
  return parts;
}

struct Value;
using Values = std::vector<Value>;
using Tuple = std::shared_ptr<const Values>;  ///< shared, so that instructions cannot multiply its memory

/// The values that torch's instructions for a tensor name.
struct Global {
  std::string name;
};
struct Storage {
  DType type{};
  std::string part;
};
struct Dictionary {
  std::vector<std::pair<std::string, TensorView>> tensors;
};
struct Mark {};
struct Nothing {};

struct Value {
  std::variant<Nothing, Mark, std::int64_t, std::string, Global, Storage, TensorView, Dictionary, Tuple> content;
};

/// Runs the pickled instructions.
class Unpickler {
 public:
  Unpickler(const Parts& parts, std::string_view context)
      : parts_(parts), reader_(find("data.pkl", context), context), context_(context) {}

  TensorTable run() {
    // A dictionary of a few tensors is short. The limit bounds how deep tuples can be in each other.
    constexpr std::size_t kMostInstructions = 16384;
    if (find("data.pkl", context_).size() > kMostInstructions) reader_.fail("holds more than a few tensors");
    while (step()) {
    }
    const Value result = pop();
    const auto* dictionary = std::get_if<Dictionary>(&result.content);
    if (dictionary == nullptr) reader_.fail("holds no dictionary of tensors");
    TensorTable tensors;
    for (const auto& [name, view] : dictionary->tensors) tensors[name] = view;
    return tensors;
  }

 private:
  std::span<const std::byte> find(const std::string& part, std::string_view context) const {
    const auto found = parts_.find(part);
    if (found == parts_.end()) throw Error(std::string(context), "has no part '" + part + "', which torch.save writes");
    return found->second;
  }

  void push(Value value) { stack_.push_back(std::move(value)); }
  void push_tuple(Values values) { push({std::make_shared<const Values>(std::move(values))}); }

  Value pop() {
    if (stack_.empty()) reader_.fail("has damaged instructions");
    Value value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }

  template <typename Content>
  Content pop_as() {
    Value value = pop();
    auto* content = std::get_if<Content>(&value.content);
    if (content == nullptr) reader_.fail("holds other things than tensors");
    return std::move(*content);
  }

  Values pop_to_mark() {
    Values values;
    for (Value value = pop(); !std::holds_alternative<Mark>(value.content); value = pop()) values.push_back(value);
    std::ranges::reverse(values);
    return values;
  }

  Values pop_some(std::size_t count) {
    Values values(count);
    for (std::size_t i = count; i > 0; --i) values[i - 1] = pop();
    return values;
  }

  template <typename Content>
  Content as(const Value& value) {
    const auto* content = std::get_if<Content>(&value.content);
    if (content == nullptr) reader_.fail("holds other things than tensors");
    return *content;
  }

  void remember(std::size_t index) {
    if (stack_.empty()) reader_.fail("has damaged instructions");
    memory_[index] = stack_.back();
  }

  void recall(std::size_t index) {
    const auto found = memory_.find(index);
    if (found == memory_.end()) reader_.fail("has damaged instructions");
    push(found->second);
  }

  /// Adds names and tensors to the dictionary on the stack; what else a module's dictionary holds is left out.
  void set_items(const Values& items) {
    if (items.size() % 2 != 0) reader_.fail("has damaged instructions");
    auto dictionary = pop_as<Dictionary>();
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const auto* view = std::get_if<TensorView>(&items[i + 1].content);
      if (view != nullptr) dictionary.tensors.emplace_back(as<std::string>(items[i]), *view);
    }
    push({std::move(dictionary)});
  }

  void set_persistent() {
    const Tuple tuple = pop_as<Tuple>();
    const Values& id = *tuple;
    if (id.size() != 5) reader_.fail("holds other things than tensors");
    constexpr std::array<std::pair<std::string_view, DType>, 3> kStorages{{{"torch FloatStorage", DType::kF32},
                                                                           {"torch HalfStorage", DType::kF16},
                                                                           {"torch BFloat16Storage", DType::kBF16}}};
    const std::string name = as<Global>(id[1]).name;
    const auto* const known = std::ranges::find_if(kStorages, [&](const auto& entry) { return entry.first == name; });
    if (known == kStorages.end()) reader_.fail("holds values of '" + name + "', which is not supported");
    push({Storage{.type = known->second, .part = "data/" + as<std::string>(id[2])}});
  }

  Shape shape_of(const Value& value) {
    Shape shape;
    const auto sizes = as<Tuple>(value);
    for (const Value& size : *sizes) shape.push_back(as<std::int64_t>(size));
    return shape;
  }

  /// torch's _rebuild_tensor_v2(storage, offset, sizes, strides, ...).
  void rebuild_tensor(const Values& arguments) {
    if (arguments.size() < 4) reader_.fail("has damaged instructions");
    const auto storage = as<Storage>(arguments[0]);
    const Shape shape = shape_of(arguments[2]), strides = shape_of(arguments[3]);
    if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; }) || strides.size() != shape.size()) {
      reader_.fail("has a tensor with impossible sizes");
    }
    const std::size_t bytes = tensor_bytes(storage.type, shape, context_);
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i > 0; --i) {
      if (shape[i - 1] > 1 && strides[i - 1] != step) reader_.fail("has a tensor that is not contiguous");
      step *= std::max<std::int64_t>(shape[i - 1], 1);
    }
    const std::span<const std::byte> part = find(storage.part, context_);
    const auto offset = as<std::int64_t>(arguments[1]);
    const std::size_t element = tensor_bytes(storage.type, {1}, context_);
    const bool inside = offset >= 0 && static_cast<std::size_t>(offset) <= part.size() / element &&
                        bytes <= part.size() - static_cast<std::size_t>(offset) * element;
    if (!inside) reader_.fail("has a tensor outside of its part '" + storage.part + "'");
    push({TensorView{.dtype = storage.type,
                     .shape = shape,
                     .bytes = part.subspan(static_cast<std::size_t>(offset) * element, bytes)}});
  }

  void reduce() {
    const Tuple arguments = pop_as<Tuple>();
    const std::string function = pop_as<Global>().name;
    if (function == "collections OrderedDict") return push({Dictionary{}});
    if (function == "torch._utils _rebuild_tensor_v2") return rebuild_tensor(*arguments);
    reader_.fail("calls '" + function + "', which is not supported");
  }

  /// Runs one instruction. Returns false at the end.
  bool step() {
    const auto code = std::to_integer<unsigned char>(reader_.take(1).front());
    switch (code) {
      case 0x80:  // the protocol's version
        reader_.take(1);
        break;
      case '.':
        return false;
      case '(':
        push({Mark{}});
        break;
      case '}':
        push({Dictionary{}});
        break;
      case ')':
      case ']':
        push_tuple({});
        break;
      case 'N':
      case 0x88:
      case 0x89:
        push({Nothing{}});
        break;
      case 'K':
        push({std::int64_t{reader_.number<std::uint8_t>()}});
        break;
      case 'M':
        push({std::int64_t{reader_.number<std::uint16_t>()}});
        break;
      case 'J':
        push({std::int64_t{reader_.number<std::int32_t>()}});
        break;
      case 'X':
        push({std::string(reader_.take_text(reader_.number<std::uint32_t>()))});
        break;
      case 'c': {
        std::string name(reader_.take_line());
        name += " ";
        name += reader_.take_line();
        push({Global{std::move(name)}});
        break;
      }
      case 'q':
        remember(reader_.number<std::uint8_t>());
        break;
      case 'r':
        remember(reader_.number<std::uint32_t>());
        break;
      case 'h':
        recall(reader_.number<std::uint8_t>());
        break;
      case 'j':
        recall(reader_.number<std::uint32_t>());
        break;
      case 't':
        push_tuple(pop_to_mark());
        break;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(pop_some(code - 0x84U));
        break;
      case 'Q':
        set_persistent();
        break;
      case 'R':
        reduce();
        break;
      case 's':
        set_items(pop_some(2));
        break;
      case 'u':
        set_items(pop_to_mark());
        break;
      case 'b':  // attributes of a dictionary
        pop();
        break;
      default:
        reader_.fail("has the pickled instruction " + std::to_string(code) + ", which is not supported");
    }
    return true;
  }

  const Parts& parts_;
  ByteReader reader_;
  std::string_view context_;
  Values stack_;
  std::map<std::size_t, Value> memory_;
};

}  // namespace

TensorTable parse_torch_file(std::span<const std::byte> file, std::string_view context) {
  const Parts parts = read_archive(file, context);
  return Unpickler(parts, context).run();
}

const TensorView& TorchFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse_tensor(path().string(), name, {});
  return found->second;
}

}  // namespace ballast::files
