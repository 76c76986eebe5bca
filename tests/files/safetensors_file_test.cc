#include "files/safetensors/safetensors_file.h"

#include <doctest/doctest.h>

#include <string>

#include "error_message.h"
#include "file_bytes.h"
#include "files/content_hash.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;
using test::safetensors_bytes;

std::string safetensors_refusal(const std::string& file) {
  return error_message([&] { parse_safetensors(test::as_bytes(file), "m.safetensors"); });
}

// Returns a header with one entry, over 16 bytes of data.
std::string one(const std::string& entry) {
  return safetensors_refusal(safetensors_bytes("{\"t\":" + entry + "}", std::string(16, 'x')));
}

TEST_CASE("tensors and metadata are found at the header's offsets") {
  const std::string file = safetensors_bytes(
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[1,2]},"none":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}}  )",
      "0123456789abcdef");
  const SafetensorsContent content = parse_safetensors(test::as_bytes(file), "m");
  CHECK(content.metadata.at("k") == "v");
  CHECK(content.tensors.size() == 3);
  const TensorView& b = content.tensors.at("b");
  CHECK(b.dtype == DType::kF16);
  CHECK(b.shape == Shape{2, 3});
  CHECK(std::string(reinterpret_cast<const char*>(b.bytes.data()), b.bytes.size()) == "456789abcdef");
  CHECK(content.tensors.at("a").bytes.size() == 1);
  CHECK(content.tensors.at("none").bytes.empty());
}

TEST_CASE("a file shorter than its header requires is refused") {
  CHECK(safetensors_refusal("") == "m.safetensors: byte 0: a file of 0 bytes is too short for safetensors");
  CHECK(safetensors_refusal("1234567") == Contains("a file of 7 bytes is too short"));
  CHECK(safetensors_refusal(test::raw(std::uint64_t{1} << 63)) ==
        Contains("header length 9223372036854775808 exceeds the format's limit"));
  CHECK(safetensors_refusal(test::raw(~std::uint64_t{0}) + "{}") == Contains("exceeds the format's limit"));
  CHECK(safetensors_refusal(test::raw(std::uint64_t{3}) + "{}") ==
        Contains("header length 3 exceeds the file's 10 bytes; truncated?"));
  CHECK(safetensors_refusal(test::raw(std::uint64_t{0})) == Contains("byte 8: not valid JSON"));
}

TEST_CASE("a tensor of an unsupported type is an error only if it is requested") {
  for (const char* type : {"F8_E5M2", "F8_E8M0", "F4", "U16", "U64", "Q4_0", "NEW"}) {
    CAPTURE(type);
    const std::string bytes =
        safetensors_bytes(std::string(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":")") + type +
                              R"(","shape":[3],"data_offsets":[1,4]}})",
                          "xyzw");
    const SafetensorsContent content = parse_safetensors(test::as_bytes(bytes), "m");
    CHECK(content.tensors.size() == 1);
    CHECK(content.unread.at("b").type == type);
    CHECK(content.unread.at("b").shape == Shape{3});
    CHECK(content.unread.at("b").bytes == 3);
    const test::TemporaryDirectory directory;
    test::write_file(directory.path() / "m.safetensors", bytes);
    const SafetensorsFile file(directory.path() / "m.safetensors");
    CHECK(file.contains("b"));
    CHECK(error_message([&] { file.tensor("b"); }) ==
          Contains("tensor \"b\": is needed and of type \"" + std::string(type) + "\", which ballast does not read"));
  }
}

TEST_CASE("a header that violates the format is refused") {
  CHECK(safetensors_refusal(safetensors_bytes("[]", "")) == Contains("byte 8: the header is not a JSON object"));
  CHECK(safetensors_refusal(safetensors_bytes("{\"\xc3\":{}}", "")) == Contains("UTF-8"));
  CHECK(safetensors_refusal(safetensors_bytes("{\"a\":[[[[[[]]]]]]}", "")) == Contains("nested more than 4 levels"));
  CHECK(safetensors_refusal(safetensors_bytes("{\"__metadata__\":3}", "")) ==
        Contains("__metadata__: must be an object, is 3"));
  CHECK(safetensors_refusal(safetensors_bytes("{\"__metadata__\":{\"n\":1}}", "")) ==
        Contains("__metadata__: n: must be a string, is 1"));
  CHECK(one("3") == Contains("tensor \"t\": must be an object, is 3"));
  CHECK(one("{}") == Contains("tensor \"t\": dtype: missing"));
  CHECK(one(R"({"dtype":"F8","shape":[-1],"data_offsets":[0,1]})") == Contains("tensor \"t\": shape[0]: must be"));
  CHECK(one(R"({"dtype":"F8","shape":[1],"data_offsets":[0,900]})") == Contains("data_offsets [0, 900] are outside"));
  CHECK(one(R"({"dtype":"U8","shape":3,"data_offsets":[0,1]})") ==
        Contains("tensor \"t\": shape: must be a list, is 3"));
  CHECK(one(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})") ==
        Contains("data_offsets: must have 2 elements, has 1"));
  CHECK(one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1.5]})") ==
        Contains("data_offsets[1]: must be a whole number, is 1.5"));
}

TEST_CASE("a name that occurs twice is refused") {
  const std::string entry = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(safetensors_refusal(safetensors_bytes("{" + entry + "," + entry + "}", "x")) ==
        Contains("key \"t\" is there twice"));
}

TEST_CASE("tensors outside the file are refused") {
  CHECK(one(R"({"dtype":"U8","shape":[17],"data_offsets":[0,17]})") ==
        Contains("are outside the 16 bytes of data at byte"));
  CHECK(one(R"({"dtype":"U8","shape":[1],"data_offsets":[5,4]})") == Contains("end before they begin"));
  CHECK(one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]})") == Contains("are outside"));
  CHECK(one(R"({"dtype":"U8","shape":[1],"data_offsets":[-1,1]})") ==
        Contains("data_offsets[0]: must be between 0 and 18446744073709551615, is -1"));
}

TEST_CASE("sizes that do not agree or overflow are refused") {
  CHECK(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})") ==
        Contains("holds 16 bytes, but F32 of shape [3] takes 12"));
  CHECK(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,16]})") ==
        Contains("shape[0]: must be between 0 and 9223372036854775807, is -1"));
  CHECK(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})") ==
        Contains("not a size that memory can hold"));
  CHECK(one(R"({"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,16]})") ==
        Contains("does not fit memory"));
  CHECK(one(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,16]})") ==
        Contains("shape[0]: must be between 0 and"));
}

TEST_CASE("tensors that share bytes are refused") {
  const std::string file = safetensors_bytes(R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]},)"
                                             R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                             std::string(8, 'x'));
  CHECK(safetensors_refusal(file) == Contains("tensors \"a\" and \"b\" overlap"));
}

TEST_CASE("control characters in a name do not reach a message") {
  CHECK(safetensors_refusal(safetensors_bytes("{\"a\\nb\":3}", "")) == Contains("tensor \"a\\nb\""));
}

TEST_CASE("damage is found by the checksum, and the tensor is named") {
  const test::TemporaryDirectory directory;
  const std::string sum = content_digits(test::as_bytes("data"));
  const std::string header =
      R"({"__metadata__":{"xxh3.t":")" + sum + R"("},"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const auto good = test::write_file(directory / "good.safetensors", safetensors_bytes(header, "data"));
  const auto bad = test::write_file(directory / "bad.safetensors", safetensors_bytes(header, "dafa"));
  CHECK_NOTHROW(SafetensorsFile(good).verify_checksums());
  CHECK(error_message([&] { SafetensorsFile(bad).verify_checksums(); }) ==
        bad.string() + ": tensor \"t\": checksum differs: the file is damaged");
  CHECK(error_message([&] { SafetensorsFile(good).tensor("u"); }) == good.string() + ": has no tensor \"u\"");
}

TEST_CASE("a file that is not a regular file is refused by name") {
  const test::TemporaryDirectory directory;
  CHECK(error_message([&] { SafetensorsFile(directory.path()); }) ==
        directory.path().string() + ": is a directory; a file is expected");
  CHECK(error_message([&] { SafetensorsFile("/dev/null"); }) == "/dev/null: is not a regular file");
  CHECK(error_message([&] { SafetensorsFile(directory / "none"); }) == Contains("cannot be opened: No such file"));
}

}  // namespace
}  // namespace ballast::files
