#include "jobs/job_key.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "ballast/error.h"
#include "temporary_directory.h"

namespace ballast::jobs {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

TEST_CASE("a key changes with names, values and their order, and different lists have different keys") {
  const std::string one = JobKey().add("a", "1").add("b", "2").digest();
  CHECK(one == JobKey().add("a", "1").add("b", "2").digest());
  CHECK(one != JobKey().add("b", "2").add("a", "1").digest());
  CHECK(one != JobKey().add("a", "1\nb=1:2").digest());
  CHECK(JobKey().add("n", 7).digest() == JobKey().add("n", "7").digest());
}

TEST_CASE("a key changes with a file's content, its time, and the files of a directory") {
  const TemporaryDirectory directory;
  const auto digest = [&] { return JobKey().add_file(directory / "model").digest(); };
  const std::string missing = digest();
  fs::create_directory(directory / "model");
  const std::string none = digest();
  CHECK(missing != none);
  test::write_file(directory / "model" / "a", "1");
  const std::string one = digest();
  CHECK(one != none);
  CHECK(one == digest());
  test::write_file(directory / "model" / "a", "2");
  CHECK(one != digest());
  const std::string two = digest();
  fs::last_write_time(directory / "model" / "a", fs::file_time_type::clock::now() + std::chrono::hours(1));
  CHECK(two != digest());
}

TEST_CASE("a named model may be in any directory") {
  const TemporaryDirectory directory;
  test::write_file(directory / "a", "1");
  const auto digest = [&](const char* name, const char* file) {
    return JobKey().add_model(name, {directory / file}).digest();
  };
  CHECK(digest("mine", "a") == digest("mine", "b"));
  CHECK(digest("mine", "a") != digest("other", "a"));
  CHECK(digest("", "a") == JobKey().add_file(directory / "a").digest());
}

TEST_CASE("a file that is identified by its content may be in any directory") {
  const TemporaryDirectory directory;
  const auto digest = [&](const char* name) { return JobKey().add_content("text", directory / name).digest(); };
  test::write_file(directory / "a", "content");
  test::write_file(directory / "b", "content");
  test::write_file(directory / "c", "contents");
  CHECK(digest("a") == digest("b"));
  CHECK(digest("a") != digest("c"));
  CHECK_THROWS_AS(digest("none"), Error);
}

}  // namespace
}  // namespace ballast::jobs
