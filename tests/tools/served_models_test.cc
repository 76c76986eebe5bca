#include "tools/flags/served_models.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "error_message.h"
#include "temporary_directory.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

using test::Contains;

std::string wrong_word(const std::string& word) {
  try {
    read_model_word(word, {});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::filesystem::path write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
  return file;
}

TEST_CASE("a word is a path, or a name with a path and options") {
  const ServedModel defaults = {.reply_format = "none"};
  CHECK(read_model_word("a/b", defaults).path == "a/b");
  CHECK(read_model_word("a/b", defaults).name.empty());
  const ServedModel model = read_model_word(
      "coder=a/b,stats=s,draft=d,alias=gpt-4,alias=x,cache-memory=1MB,share=2,context=99,activations=float", defaults);
  CHECK(model.name == "coder");
  CHECK(model.path == "a/b");
  CHECK(model.statistics == "s");
  CHECK(model.draft == "d");
  CHECK(model.aliases == std::vector<std::string>{"gpt-4", "x"});
  CHECK(model.cache_bytes == 1'000'000);
  CHECK(model.share == 2);
  CHECK(model.options.context == 99);
  CHECK(model.options.activations == ActivationType::kFloat);
  CHECK(model.reply_format == "none");
  const ServedModel unnamed = read_model_word("a/b,stats=s", defaults);
  CHECK(unnamed.path == "a/b");
  CHECK(unnamed.name.empty());
  CHECK(unnamed.statistics == "s");
}

TEST_CASE("a path that exists is no name with a path") {
  const test::TemporaryDirectory folder;
  const std::filesystem::path path = write_text(folder.path() / "a=b,c", "");
  CHECK(read_model_word(path.string(), {}).path == path);
}

TEST_CASE("wrong words are refused by name") {
  CHECK(wrong_word("=a") == Contains("must begin with NAME=MODEL"));
  CHECK(wrong_word("a=") == Contains("must begin with NAME=MODEL"));
  CHECK(wrong_word("n=a,b") == Contains("'b' must be option=value"));
  CHECK(wrong_word("n=a,size=3") == Contains("'size' is not an option of a model: there are activations, alias"));
  CHECK(wrong_word("n=a,share=0") == Contains("must be a number above 0"));
  CHECK(wrong_word("n=a,share=1000") == Contains("from 0.01 to 100"));
  CHECK(wrong_word("n=a,context=2.5") == Contains("must be a number above 0"));
  CHECK(wrong_word("n=a,stats=") == Contains("stats: has no value"));
  CHECK(wrong_word("n=a,cache-memory=much") == Contains("a size like 92MB"));
  CHECK(wrong_word("n=a,activations=int4") == Contains("float, int16, int8"));
  CHECK(wrong_word("n=a,reply-format=x") == Contains("hermes"));
}

TEST_CASE("a file lists models with their options, whose paths are relative to it") {
  const test::TemporaryDirectory folder;
  const std::filesystem::path file =
      write_text(folder.path() / "models.json",
                 R"({"models": [{"model": "a", "name": "x", "alias": ["y", "z"], "stats": "s", "share": 0.5},
                                {"model": "/b", "alias": "w", "context": 64}]})");
  const std::vector<ServedModel> models = read_models_file(file, {});
  REQUIRE(models.size() == 2);
  CHECK(models[0].path == folder.path() / "a");
  CHECK(models[0].name == "x");
  CHECK(models[0].aliases == std::vector<std::string>{"y", "z"});
  CHECK(models[0].statistics == folder.path() / "s");
  CHECK(models[0].share == 0.5);
  CHECK(models[1].path == "/b");
  CHECK(models[1].aliases == std::vector<std::string>{"w"});
  CHECK(models[1].options.context == 64);
}

TEST_CASE("a wrong file of models is refused with its place") {
  const test::TemporaryDirectory folder;
  const auto refused = [&](const std::string& text) {
    return test::error_message([&] { read_models_file(write_text(folder.path() / "models.json", text), {}); });
  };
  CHECK(refused("[]") == Contains("models.json"));
  CHECK(refused("{}") == Contains("models"));
  CHECK(refused(R"({"models": []})") == Contains("lists no models"));
  CHECK(refused(R"({"model": "a"})") == Contains("is not a member"));
  CHECK(refused(R"({"models": [{"name": "a"}]})") == Contains("models[0].model: is missing"));
  CHECK(refused(R"({"models": [{"model": "a", "size": "3"}]})") == Contains("'size' is not an option"));
  CHECK(refused(R"({"models": [{"model": "a", "share": true}]})") == Contains("models[0].share"));
}

TEST_CASE("the models of a folder are its folders with a config and its GGUFs, without later parts") {
  const test::TemporaryDirectory folder;
  for (const char* name : {"b/config.json", "a/config.json", "c.gguf", "d-00001-of-00002.gguf", "d-00002-of-00002.gguf",
                           "e/notes.txt", "f.txt", ".g/config.json"}) {
    write_text(folder.path() / name, "{}");
  }
  std::vector<std::string> names;
  for (const ServedModel& model : find_models(folder.path(), {})) names.push_back(model.path.filename().string());
  CHECK(names == std::vector<std::string>{"a", "b", "c.gguf", "d-00001-of-00002.gguf"});
  CHECK(test::error_message([&] { find_models(folder.path() / "e", {}); }) == Contains("has no model"));
  CHECK(test::error_message([&] { find_models(folder.path() / "none", {}); }) == Contains("cannot be read"));
}

}  // namespace
}  // namespace ballast::tools
