#include "files/checkpoint.h"

#include <doctest/doctest.h>

#include <string>

#include "error_message.h"
#include "file_bytes.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

using test::Contains;
using test::error_message;
using test::write_file;

std::string refusal_to_open(const std::filesystem::path& path) {
  return error_message([&] { open_checkpoint(path); });
}

std::string tensor_file(const std::string& name) {
  return test::safetensors_bytes("{\"" + name + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", name + "...");
}

TEST_CASE("a directory with one file is opened") {
  const test::TemporaryDirectory directory;
  write_file(directory / "config.json", R"({"model_type":"llama"})");
  write_file(directory / "model.safetensors", tensor_file("a"));
  const auto model = open_checkpoint(directory.path());
  CHECK(model->kind() == Checkpoint::Kind::kHuggingFace);
  CHECK(model->path() == directory.path());
  CHECK(model->config()["model_type"] == "llama");
  CHECK(model->names() == std::vector<std::string>{"a"});
  CHECK(model->contains("a"));
  CHECK(!model->contains("b"));
  CHECK(model->file_bytes() == tensor_file("a").size());
  CHECK_NOTHROW(model->release("a"));
  CHECK_NOTHROW(model->verify_checksums());
  CHECK(model->tensor("a").bytes[0] == std::byte{'a'});
  CHECK(error_message([&] { model->tensor("b"); }) == directory.path().string() + ": has no tensor \"b\"");
}

TEST_CASE("a GGUF file is recognized by its name or by its first bytes") {
  const test::TemporaryDirectory directory;
  const std::string bytes = test::GgufBytes().string("general.architecture", "llama").bytes();
  CHECK(open_checkpoint(write_file(directory / "m.bin", bytes))->kind() == Checkpoint::Kind::kGguf);
  CHECK(refusal_to_open(write_file(directory / "m.gguf", "xxxxyyyy")) ==
        Contains("byte 0: does not begin with \"GGUF\""));
}

TEST_CASE("a path that is not a model is refused, and the error lists what a model may be") {
  const test::TemporaryDirectory directory;
  CHECK(refusal_to_open("") == Contains("the path is empty; a model is a Hugging Face directory"));
  CHECK(refusal_to_open(directory / "none") == Contains("none: does not exist; a model is"));
  CHECK(refusal_to_open("/dev/null") == Contains("/dev/null: is neither a directory nor GGUF"));
  CHECK(refusal_to_open(write_file(directory / "text", "hello")) ==
        Contains("is neither a directory nor GGUF; a model is"));
  CHECK(refusal_to_open(std::string(5000, 'x')) == Contains("cannot be examined: File name too long"));
}

TEST_CASE("an error names the file that a directory lacks") {
  const test::TemporaryDirectory directory;
  CHECK(refusal_to_open(directory.path()) ==
        directory.path().string() + ": has no config.json, so it is not a model's directory");
  write_file(directory / "x.gguf", "");
  CHECK(refusal_to_open(directory.path()) ==
        Contains("to read the GGUF file in it, name " + (directory / "x.gguf").string()));
  std::filesystem::remove(directory / "x.gguf");
  write_file(directory / "config.json", "{}");
  CHECK(refusal_to_open(directory.path()) ==
        Contains("has neither model.safetensors nor model.safetensors.index.json"));
  write_file(directory / "pytorch_model.bin", "");
  write_file(directory / "a.bin", "");
  CHECK(
      refusal_to_open(directory.path()) ==
      Contains("PyTorch's pytorch_model.bin is not read: to save it as safetensors beside it, run there python3 -c "
               "\"from transformers import AutoModelForCausalLM as M; M.from_pretrained('.').save_pretrained('.')\""));
  write_file(directory / "config.json", R"({"architectures":["GPT2LMHeadModel"]})");
  CHECK(refusal_to_open(directory.path()) == Contains("from transformers import GPT2LMHeadModel as M"));
  write_file(directory / "config.json", R"({"architectures":["a; b"]})");
  CHECK(refusal_to_open(directory.path()) == Contains("from transformers import AutoModelForCausalLM as M"));
}

TEST_CASE("an error suggests how to convert a folder of PyTorch or sentence-transformers") {
  const test::TemporaryDirectory directory;
  write_file(directory / "consolidated.00.pth", "");
  CHECK(refusal_to_open(directory.path()) == Contains("consolidated.00.pth alone is not read: save the model with"));
  write_file(directory / "modules.json", "[]");
  CHECK(refusal_to_open(directory.path()) == Contains("is a folder of sentence-transformers without a transformer"));
  std::filesystem::create_directory(directory / "0_Transformer");
  write_file(directory / "0_Transformer" / "config.json", "{}");
  std::filesystem::create_directory(directory / "1_Pooling");
  write_file(directory / "1_Pooling" / "config.json", "{}");
  CHECK(refusal_to_open(directory.path()) ==
        Contains(": name the model in it, " + (directory / "0_Transformer").string()));
}

TEST_CASE("an error about a damaged config.json names the location in it") {
  const test::TemporaryDirectory directory;
  write_file(directory / "model.safetensors", tensor_file("a"));
  write_file(directory / "config.json", "{\"a\":1,}");
  CHECK(refusal_to_open(directory.path()) == Contains("config.json: byte 7: not valid JSON"));
  write_file(directory / "config.json", "3");
  CHECK(refusal_to_open(directory.path()) == Contains("config.json: byte 0: a JSON object is expected, not number"));
  std::filesystem::remove(directory / "config.json");
  std::filesystem::create_directory(directory / "config.json");
  CHECK(refusal_to_open(directory.path()) == Contains("config.json: is a directory; a file is expected"));
}

struct Sharded {
  test::TemporaryDirectory directory;
  explicit Sharded(const std::string& index) {
    write_file(directory / "config.json", "{}");
    write_file(directory / "1.safetensors", tensor_file("a"));
    write_file(directory / "2.safetensors", tensor_file("b"));
    write_file(directory / "model.safetensors.index.json", index);
  }
  std::string refusal_to_open() const { return ballast::files::refusal_to_open(directory.path()); }
};

TEST_CASE("numbers that Python writes and JSON lacks are read as the objects that transformers writes") {
  const test::TemporaryDirectory directory;
  write_file(directory / "model.safetensors", tensor_file("a"));
  write_file(directory / "config.json", R"({"limit":[0.0, Infinity],"text":"an \" Infinity"})");
  const auto model = open_checkpoint(directory.path());
  CHECK(model->config()["limit"][1]["__float__"] == "Infinity");
  CHECK(model->config()["text"] == "an \" Infinity");
  write_file(directory / "config.json", R"({"limit":-Infinity,"other":[NaN]})");
  CHECK(open_checkpoint(directory.path())->config()["limit"]["__float__"] == "-Infinity");
  CHECK(open_checkpoint(directory.path())->config()["other"][0]["__float__"] == "NaN");
  write_file(directory / "config.json", R"({"limit":+Infinity})");
  CHECK(refusal_to_open(directory.path()) == Contains("byte 9: not valid JSON"));
}

TEST_CASE("shards are opened together") {
  const Sharded model(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  const auto opened = open_checkpoint(model.directory.path());
  CHECK(opened->names() == std::vector<std::string>{"a", "b"});
  CHECK(opened->tensor("b").bytes[0] == std::byte{'b'});
  CHECK(opened->file_bytes() == 2 * tensor_file("a").size());
}

TEST_CASE("an index that does not agree with its shards is refused") {
  CHECK(Sharded("{}").refusal_to_open() == Contains("index.json: weight_map: missing"));
  CHECK(Sharded(R"({"weight_map":{"a":1}})").refusal_to_open() == Contains("weight_map.a: must be a string, is 1"));
  CHECK(Sharded(R"({"weight_map":{"a":"3.safetensors"}})").refusal_to_open() ==
        Contains("names the shard \"3.safetensors\", which is missing"));
  CHECK(Sharded(R"({"weight_map":{"a":"2.safetensors"}})").refusal_to_open() ==
        Contains("2.safetensors: tensor \"a\": is missing, though model.safetensors.index.json says it is here"));
  CHECK(Sharded(R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})").refusal_to_open() ==
        Contains("key \"a\" is there twice"));
}

TEST_CASE("an index whose shard is the index itself is refused") {
  CHECK(Sharded(R"({"weight_map":{"a":"model.safetensors.index.json"}})").refusal_to_open() ==
        Contains("not a safetensors file?"));
}

TEST_CASE("a shard's name that leads out of the directory is refused") {
  for (const char* name : {"/etc/passwd", "../1.safetensors", "x/../../1.safetensors", "", "1.safetensors\\u0000x"}) {
    CHECK(Sharded(std::string(R"({"weight_map":{"a":")") + name + "\"}}").refusal_to_open() ==
          Contains("is not a file inside the model's directory"));
  }
}

TEST_CASE("a shard's name too long for the file system is a missing shard") {
  CHECK(Sharded(R"({"weight_map":{"a":")" + std::string(5000, 'x') + "\"}}").refusal_to_open() ==
        Contains("which is missing"));
}

TEST_CASE("a tensor in two shards is refused with both named") {
  const Sharded model(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  write_file(model.directory / "2.safetensors",
             test::safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                     "xx"));
  CHECK(model.refusal_to_open() == Contains("2.safetensors: tensor \"a\": is in 1.safetensors too"));
}

}  // namespace
}  // namespace ballast::files
