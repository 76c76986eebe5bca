#include "eval/sweep/sweep_folder.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "ballast/error.h"
#include "eval/sweep/sweep_row.h"
#include "files/atomic_output.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"

namespace ballast::eval {

namespace {

namespace fs = std::filesystem;

fs::path key_file(const fs::path& output) {
  return output.string() + ".key";
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(path.string(), "cannot be made: " + error.message());
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw Error(path.string(), "cannot be removed: " + error.message());
}

}  // namespace

SweepFolder::SweepFolder(fs::path directory) : directory_(std::move(directory)) {
  std::error_code error;
  const bool is_new = !fs::exists(directory_, error) || fs::is_empty(directory_, error);
  if (!is_new && !fs::is_directory(directory_ / "runs", error)) {
    throw Error(directory_.string(), "holds something other than a sweep's results: choose another name");
  }
  make_directory(directory_ / "runs");
  make_directory(directory_ / "models");
}

fs::path SweepFolder::model(const std::string& recipe_name) const {
  return directory_ / "models" / recipe_name;
}

std::optional<SweepRow> SweepFolder::load(const std::string& key) const {
  const fs::path path = run_file(key);
  if (std::error_code error; !fs::exists(path, error)) return std::nullopt;
  const nlohmann::json row = files::read_json_object(path);
  const std::string damaged = ": is not what a sweep writes (remove it, and it is measured again)";
  return parse_row(files::JsonReader(row, path.string() + damaged));
}

void SweepFolder::store(const std::string& key, const SweepRow& row) const {
  files::write_file_atomically(run_file(key), row_json(row).dump(2) + "\n", true);
}

bool SweepFolder::holds(const fs::path& output, const std::string& key) const {
  std::error_code error;
  if (!fs::exists(output, error) || !fs::exists(key_file(output), error)) return false;
  return files::read_whole_file(key_file(output)) == key;
}

void SweepFolder::begin(const fs::path& output) const {
  std::error_code error;
  fs::remove(key_file(output), error);
  if (error) throw Error(key_file(output).string(), "cannot be removed: " + error.message());
}

void SweepFolder::complete(const fs::path& output, const std::string& key) const {
  files::write_file_atomically(key_file(output), key, true);
}

void SweepFolder::remove(const fs::path& output) const {
  begin(output);
  remove_tree(output);
}

void SweepFolder::clean(bool keep_models) const {
  remove_tree(reference());
  if (!keep_models) remove_tree(directory_ / "models");  // removes the remains of stopped conversions, too
}

}  // namespace ballast::eval
