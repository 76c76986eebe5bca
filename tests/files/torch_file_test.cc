#include "files/torch_file.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "torch_archive.h"

namespace ballast::files::torch_file_test {

using test::error_message;

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

std::string refusal(const std::string& file) {
  return error_message([&] { parse_torch_file(bytes_of(file), "file.pt"); });
}

std::string with_items(const std::string& items) {
  return test::zip_archive({{"data.pkl", test::pickled_dictionary(items)}, {"data/0", std::string(24, 'x')}});
}

std::string with_instructions(const std::string& instructions) {
  return test::zip_archive({{"data.pkl", instructions}});
}

TEST_CASE("tensors of a dictionary are found with their shapes and values") {
  const std::string file = test::torch_file({{"weight", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"bias", {{2}, {7, 8}}}});
  const TensorTable tensors = parse_torch_file(bytes_of(file), "file.pt");
  CHECK(tensors.size() == 2);
  const TensorView& weight = tensors.at("weight");
  CHECK(weight.shape == Shape{2, 3});
  CHECK(weight.dtype == DType::kF32);
  float values[6];
  REQUIRE(weight.bytes.size() == sizeof(values));
  std::memcpy(values, weight.bytes.data(), sizeof(values));
  CHECK(values[5] == 6);
  CHECK(tensors.at("bias").shape == Shape{2});
}

TEST_CASE("files that are cut anywhere are refused") {
  const std::string file = test::torch_file({{"weight", {{2, 3}, {1, 2, 3, 4, 5, 6}}}});
  for (std::size_t size = 0; size < file.size(); ++size) {
    CHECK_THROWS_AS(parse_torch_file(bytes_of(file.substr(0, size)), "file.pt"), Error);
  }
}

TEST_CASE("dictionaries of other things, and tensors that do not fit their part, are refused") {
  using test::pickled_tensor;
  using test::pickled_text;
  const std::string name = pickled_text("weight");
  CHECK(refusal("") == "file.pt: is no zip archive, as torch.save writes");
  CHECK(refusal(with_items(name + pickled_tensor({2, 3}, "0", {1, 2}))) ==
        "file.pt: has a tensor that is not contiguous");
  CHECK(refusal(with_items(name + pickled_tensor({7}, "0", {1}))) ==
        "file.pt: has a tensor outside of its part 'data/0'");
  CHECK(refusal(with_items(name + pickled_tensor({3}, "0", {1}, 4))) ==
        "file.pt: has a tensor outside of its part 'data/0'");
  CHECK(refusal(with_items(name + pickled_tensor({3}, "1", {1}))) ==
        "file.pt: has no part 'data/1', which torch.save writes");
  CHECK(refusal(with_items(name + pickled_tensor({-1}, "0", {1}))) == "file.pt: has a tensor with impossible sizes");
  CHECK(refusal(with_instructions("cos\nsystem\n(" + pickled_text("true") + "tR.")) ==
        "file.pt: calls 'os system', which is not supported");
  CHECK(refusal(with_instructions("K\1.")) == "file.pt: holds no dictionary of tensors");
  CHECK(refusal(with_instructions("\x95.")) == "file.pt: has the pickled instruction 149, which is not supported");
  CHECK(refusal(with_instructions("R.")) == "file.pt: has damaged instructions");
  CHECK(refusal(with_instructions("h\5.")) == "file.pt: has damaged instructions");
  CHECK(refusal(with_instructions(std::string(20000, 'N'))) == "file.pt: holds more than a few tensors");
  CHECK(refusal(with_instructions("N" + std::string(16000, '\x85') + ".")) ==
        "file.pt: holds no dictionary of tensors");
  CHECK(refusal(test::zip_archive({{"other", ""}})) == "file.pt: has no part 'data.pkl', which torch.save writes");
}

}  // namespace ballast::files::torch_file_test
