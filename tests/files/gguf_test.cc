#include "files/gguf/gguf.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "error_message.h"
#include "file_bytes.h"
#include "files/gguf/gguf_parser.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;
using test::gguf_string;
using test::GgufBytes;
using test::raw;

constexpr std::uint32_t kU16 = 2, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9;

std::string gguf_refusal(const std::string& file) {
  return error_message([&] { parse_gguf(test::as_bytes(file), "m.gguf"); });
}
std::string gguf_refusal(const GgufBytes& file) {
  return gguf_refusal(file.bytes());
}

std::string array(std::uint32_t type, std::uint64_t count, const std::string& values) {
  return raw(type) + raw(count) + values;
}

GgufBytes small_file() {
  std::string tokens;
  for (int i = 0; i < 100; ++i) tokens += gguf_string("t" + std::to_string(i));
  GgufBytes file;
  file.string("general.architecture", "llama").number("llama.block_count", kU32, std::uint32_t{30});
  file.number("llama.eps", kF32, 0.5f).number("flag", kBool, std::uint8_t{1});
  file.value_bytes("few", kArray, array(kU32, 2, raw(std::uint32_t{7}) + raw(std::uint32_t{8})));
  file.value_bytes("tokens", kArray, array(kString, 100, tokens));
  file.value_bytes("nested", kArray, array(kArray, 2, array(kBool, 1, raw(std::uint8_t{0})) + array(kU32, 0, "")));
  file.tensor("a", {3, 2}, 0, 0).tensor("q", {64, 1}, 2, 32);
  file.data = std::string(32 + 36, 'x');
  return file;
}

TEST_CASE("a tensor of an unsupported type in a GGUF is an error only if it is requested") {
  GgufBytes file;
  file.tensor("a", {8}, 0, 0).tensor("b", {8}, 15, 32).tensor("c", {8}, 99, 64).tensor("d", {8}, 0, 96);
  file.data = std::string(128, 'x');
  const test::TemporaryDirectory directory;
  test::write_file(directory.path() / "m.gguf", file.bytes());
  const auto opened = open_gguf(directory.path() / "m.gguf");
  CHECK(opened->names() == std::vector<std::string>{"a", "d"});
  CHECK(opened->contains("b"));
  CHECK(opened->unread_tensors().at("b").type == "Q8_K");
  CHECK(opened->unread_tensors().at("b").bytes == 32);
  CHECK(error_message([&] { opened->tensor("c"); }) ==
        Contains("tensor \"c\": is needed and of type \"unknown type 99\""));
  CHECK(error_message([&] { opened->tensor("e"); }) == Contains("has no tensor \"e\""));
}

TEST_CASE("the size of an array in the metadata is known before it is read") {
  const test::TemporaryDirectory directory;
  test::write_file(directory.path() / "m.gguf", small_file().bytes());
  const auto file = open_gguf(directory.path() / "m.gguf");
  CHECK(file->array_size("tokens") == 100);
  CHECK(file->array_size("few") == 2);
  CHECK(file->array_size("nested") == 2);
  CHECK(file->array_size("flag") == 0);
  CHECK(file->array_size("none") == 0);
  CHECK(file->metadata("nested") == nlohmann::json::parse("[[false],[]]"));
}

TEST_CASE("metadata and tensors are read, shapes outermost first") {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufBytes file = small_file();
    file.version = version;
    const std::string bytes = file.bytes();
    const GgufContent content = parse_gguf(test::as_bytes(bytes), "m");
    CHECK(content.config == nlohmann::json::parse(R"({"general.architecture":"llama","llama.block_count":30,
        "llama.eps":0.5,"flag":true,"few":[7,8]})"));
    CHECK(content.tensors.at("a").shape == Shape{2, 3});
    CHECK(content.tensors.at("q").dtype == DType::kQ4_0);
    CHECK(content.tensors.at("q").bytes.size() == 36);
    CHECK(content.tensors.at("q").bytes.data() - content.tensors.at("a").bytes.data() == 32);
  }
}

TEST_CASE("a file on disk returns long arrays on request") {
  const test::TemporaryDirectory directory;
  const auto path = test::write_file(directory / "m.gguf", small_file().bytes());
  const auto file = open_gguf(path);
  CHECK(file->kind() == Checkpoint::Kind::kGguf);
  CHECK(file->names() == std::vector<std::string>{"a", "q"});
  CHECK(file->metadata("tokens").size() == 100);
  CHECK(file->metadata("tokens")[99] == "t99");
  CHECK(file->metadata("few") == nlohmann::json::array({7, 8}));
  CHECK(file->metadata("none").is_null());
  CHECK(error_message([&] { file->tensor("b"); }) == path.string() + ": has no tensor \"b\"");
}

TEST_CASE("the alignment of the file is used") {
  GgufBytes file;
  file.number("general.alignment", kU32, std::uint32_t{256}).tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 256);
  file.data = std::string(260, 'x');
  const std::string bytes = file.bytes(256);
  CHECK(parse_gguf(test::as_bytes(bytes), "m").tensors.at("a").bytes.data() - test::as_bytes(bytes).data() == 256);
}

TEST_CASE("a file cut at any byte is refused, never read past its end") {
  const std::string whole = small_file().bytes();
  CHECK(gguf_refusal(whole) == "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    // Each prefix is a separate copy, so that a sanitizer detects a read past the end.
    CHECK(gguf_refusal(std::string(whole, 0, size)) == Contains("m.gguf: "));
  }
}

TEST_CASE("signature and version are checked") {
  CHECK(gguf_refusal("GGML12345678901234567890") == Contains("byte 0: does not begin with \"GGUF\""));
  const auto of_version = [](std::uint32_t version) {
    GgufBytes file;
    file.version = version;
    return gguf_refusal(file);
  };
  CHECK(of_version(1) == "m.gguf: byte 4: GGUF version 1; ballast reads versions 2 and 3");
  CHECK(of_version(4) == Contains("GGUF version 4"));
  CHECK(of_version(0x03000000) == Contains("byte 4: a big-endian GGUF"));
}

TEST_CASE("counts that the file cannot hold are refused") {
  GgufBytes counts;
  counts.tensor_count = ~std::uint64_t{0};
  CHECK(gguf_refusal(counts) ==
        Contains("byte 8: 18446744073709551615 tensors and 0 metadata entries cannot be in the 8 bytes"));
  counts.tensor_count = 0;
  counts.metadata_count = std::uint64_t{1} << 63;
  CHECK(gguf_refusal(counts) == Contains("9223372036854775808 metadata entries cannot be in"));
  GgufBytes file;
  file.value_bytes("k", kArray, array(kU32, std::uint64_t{1} << 62, ""));
  CHECK(gguf_refusal(file) == Contains("an array of 4611686018427387904 elements runs past the end"));
  GgufBytes strings;
  strings.value_bytes("k", kArray, array(kString, 1000, gguf_string("a")));
  CHECK(gguf_refusal(strings) == Contains("an array of 1000 elements runs past the end"));
  GgufBytes text;
  text.value_bytes("k", kString, raw(~std::uint64_t{0}) + "a");
  CHECK(gguf_refusal(text) == Contains("string of 18446744073709551615 bytes runs past the end"));
}

TEST_CASE("metadata that violates the format is refused") {
  CHECK(gguf_refusal(GgufBytes().value_bytes("k", 13, "")) == Contains("unknown value type 13"));
  CHECK(gguf_refusal(GgufBytes().number("k", kBool, std::uint8_t{7})) == Contains("a truth value is 0 or 1, not 7"));
  CHECK(gguf_refusal(GgufBytes().string("k", "\xff")) == Contains("is not UTF-8"));
  CHECK(gguf_refusal(GgufBytes().string("\xc0\xaf", "v")) == Contains("is not a name in UTF-8"));
  CHECK(gguf_refusal(GgufBytes().string("", "v")) == Contains("is not a name"));
  CHECK(gguf_refusal(GgufBytes().string("k", "v").string("k", "w")) == Contains("metadata key \"k\" is there twice"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += array(kArray, 1, "");
  CHECK(gguf_refusal(GgufBytes().value_bytes("k", kArray, deep)) == Contains("arrays nested more than 4 deep"));
}

TEST_CASE("an alignment that makes no sense is refused") {
  for (const std::uint32_t alignment : {0u, 1u, 24u, 0x80000000u}) {
    CHECK(gguf_refusal(GgufBytes().number("general.alignment", kU32, alignment)) ==
          Contains("not a power of two from 8 to 65536"));
  }
  CHECK(gguf_refusal(GgufBytes().string("general.alignment", "32")) == Contains("not a power of two"));
}

TEST_CASE("tensors that the file cannot hold are refused") {
  const auto one = [](std::initializer_list<std::uint64_t> sizes, std::uint32_t type, std::uint64_t offset) {
    GgufBytes file;
    file.tensor("t", sizes, type, offset);
    file.data = std::string(64, 'x');
    return gguf_refusal(file);
  };
  CHECK(one({16}, 0, 0) == "no error");
  CHECK(one({17}, 0, 0) == Contains("68 bytes at offset 0 are outside the 64 bytes of data"));
  CHECK(one({1}, 0, 64) == Contains("are outside"));
  CHECK(one({1}, 0, ~std::uint64_t{31}) == Contains("are outside"));
  CHECK(one({1}, 0, 4) == Contains("at offset 4 is not aligned to 32 bytes"));
  CHECK(one({1, 1, 1, 1, 1}, 0, 0) == Contains("has 5 dimensions; at most 4"));
  CHECK(one({33}, 2, 0) == Contains("not whole blocks of 32 elements, as Q4_0 needs"));
  CHECK(one({128}, 16, 0) == Contains("not whole blocks of 256 elements, as IQ2_XXS needs"));
  CHECK(one({32}, 40, 0) == Contains("not whole blocks of 64 elements, as NVFP4 needs"));
  CHECK(one({256}, 16, 0) == Contains("66 bytes at offset 0 are outside the 64 bytes of data"));
  CHECK(one({96}, 39, 0) == "no error");  // 51 bytes of MXFP4
  CHECK(one({128}, 39, 0) == Contains("68 bytes at offset 0 are outside the 64 bytes of data"));
  CHECK(one({}, 2, 0) == Contains("not whole blocks"));
  CHECK(one({~std::uint64_t{0}}, 0, 0) == Contains("has size 18446744073709551615"));
  CHECK(one({1ull << 40, 1ull << 40}, 0, 0) == Contains("not a size that memory can hold"));
  CHECK(one({1ull << 62}, 0, 0) == Contains("does not fit memory"));
}

TEST_CASE("a matrix in NVFP4 whose factor is another tensor is refused") {
  GgufBytes file;
  file.tensor("q.weight", {64}, 40, 0).tensor("q.scale", {1}, 0, 64).data = std::string(68, 'x');
  CHECK(gguf_refusal(file) ==
        Contains("m.gguf: tensor \"q.weight\": NVFP4 with a scale of its own (\"q.scale\") is not supported"));
}

TEST_CASE("tensors with the same name or overlapping bytes are refused") {
  GgufBytes twice;
  twice.tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).data = std::string(64, 'x');
  CHECK(gguf_refusal(twice) == Contains("tensor \"t\": byte"));
  CHECK(gguf_refusal(twice) == Contains("is there twice"));
  GgufBytes shared;
  shared.tensor("t", {9}, 0, 0).tensor("u", {1}, 0, 32).data = std::string(64, 'x');
  CHECK(gguf_refusal(shared) == Contains("tensors \"t\" and \"u\" overlap"));
}

// Returns part `index` of `count`, with a tensor of one value named `tensor`; the first part holds the metadata.
std::string part(std::uint16_t index, std::uint16_t count, std::string_view tensor, std::int32_t tensors = 3) {
  GgufBytes file;
  if (index == 0) file.string("general.architecture", "llama").string("key", "first");
  if (index == 1) file.string("key", "second");
  file.number("split.no", kU16, index).number("split.count", kU16, count);
  file.number("split.tensors.count", kI32, tensors).tensor(tensor, {1}, 0, 0);
  file.data = raw(static_cast<float>(index));
  return file.bytes();
}

struct SplitModel {
  test::TemporaryDirectory directory;
  std::vector<std::filesystem::path> paths;

  SplitModel() {
    for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
      const auto index = static_cast<std::uint16_t>(paths.size());
      paths.push_back(
          test::write_file(directory / name, part(index, 3, std::string(1, static_cast<char>('c' - index)))));
    }
  }
  std::string refusal(std::size_t opened = 0) const {
    return error_message([&] { open_gguf(paths[opened]); });
  }
  void write(std::size_t index, const std::string& bytes) const { test::write_file(paths[index], bytes); }
};

TEST_CASE("a model in several files is opened by its first file") {
  const SplitModel model;
  const auto file = open_checkpoint(model.paths.front());
  CHECK(file->names() == std::vector<std::string>{"a", "b", "c"});
  for (const auto& [name, value] : {std::pair{"a", 2.0f}, {"b", 1.0f}, {"c", 0.0f}}) {
    float stored = -1;
    REQUIRE(file->tensor(name).bytes.size() == sizeof(stored));
    std::memcpy(&stored, file->tensor(name).bytes.data(), sizeof(stored));
    CHECK(stored == value);
    CHECK_NOTHROW(file->release(name));
  }
  CHECK(file->config()["key"] == "first");
  std::uint64_t bytes = 0;
  for (const auto& path : model.paths) bytes += std::filesystem::file_size(path);
  CHECK(file->file_bytes() == bytes);
  CHECK_NOTHROW(file->check_whole());
  std::filesystem::resize_file(model.paths[2], 100);
  CHECK(error_message([&] { file->check_whole(); }) == Contains("m-00003-of-00003.gguf"));
}

TEST_CASE("a model in several files is refused if one of them is missing or is another part") {
  const SplitModel model;
  CHECK(model.refusal() == "no error");
  CHECK(model.refusal(1) == Contains("m-00002-of-00003.gguf: is part 2 of 3 of a model; name the first, "));
  CHECK(model.refusal(1) == Contains(model.paths[0].string()));

  model.write(1, part(2, 3, "b"));
  CHECK(model.refusal() == Contains("m-00002-of-00003.gguf: says that it is part 3 of 3, its name 2 of 3"));
  model.write(1, part(1, 4, "b"));
  CHECK(model.refusal() == Contains("says that it is part 2 of 4, its name 2 of 3"));
  model.write(1, GgufBytes().tensor("b", {0}, 0, 0).bytes());
  CHECK(model.refusal() == Contains("says that it is part 1 of 1, its name 2 of 3"));
  model.write(1, part(1, 3, "c"));
  CHECK(model.refusal() == Contains("m-00002-of-00003.gguf: tensor \"c\": is in m-00001-of-00003.gguf too"));
  model.write(1, part(1, 3, "b").substr(0, 60));
  CHECK(model.refusal() == Contains("m-00002-of-00003.gguf: byte "));
  std::filesystem::remove(model.paths[1]);
  CHECK(model.refusal() == Contains("m-00002-of-00003.gguf: does not exist; it is part 2 of a model of 3"));
}

TEST_CASE("the other parts must agree with the first part's metadata") {
  const SplitModel model;
  model.write(0, part(0, 3, "c", 4));
  CHECK(model.refusal() == Contains("says that the model has 4 tensors; its 3 parts have 3"));
  model.write(0, part(0, 3, "c", -1));
  CHECK(model.refusal() == Contains("split.tensors.count"));
  model.write(0, part(0, 2, "c"));
  CHECK(model.refusal() ==
        Contains("is part 1 of 2 of a model, but its name does not end in \"-00001-of-00002.gguf\""));
  model.write(0, part(3, 3, "c"));
  CHECK(model.refusal() == Contains("split.no: is 3, of 3 parts"));
}

}  // namespace
}  // namespace ballast::files
