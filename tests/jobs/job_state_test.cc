#include "jobs/job_state.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "ballast/error.h"
#include "error_message.h"
#include "temporary_directory.h"

namespace ballast::jobs {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

JobKey key(std::string_view option) {
  JobKey key;
  key.add("option", option);
  return key;
}

TEST_CASE("a job finds the progress of the previous run, and none after it was completed") {
  const TemporaryDirectory directory;
  const fs::path folder = JobState::folder_beside(directory / "out.stats");
  CHECK(folder == directory / ".out.stats.resume");
  {
    JobState state(folder, key("a"));
    CHECK_FALSE(state.get("hidden"));
    CHECK(state.put("hidden", std::string("1\0002", 3)));
    CHECK(state.put("hidden", std::string("4\0005", 3)));
    CHECK(state.put("other", ""));
    CHECK(state.put("gone", "x"));
    state.erase("gone");
  }
  {
    JobState state(folder, key("a"));
    CHECK(state.names() == std::vector<std::string>{"hidden", "other"});
    CHECK(state.get("hidden") == std::string("4\0005", 3));
    CHECK(state.get("other") == "");
    state.remove();
  }
  CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("a job with another key starts from the beginning") {
  const TemporaryDirectory directory;
  {
    JobState(directory / "state", key("a")).put("blob", "x");
  }
  CHECK_FALSE(JobState(directory / "state", key("b")).get("blob"));
  CHECK_FALSE(fs::exists(directory / "state"));  // nothing was saved, so no folder is left
}

TEST_CASE("a damaged blob counts as missing") {
  const TemporaryDirectory directory;
  {
    JobState(directory / "state", key("a")).put("blob", "content");
  }
  const fs::path file = directory / "state" / "blob.blob";
  std::string bytes = test::read_file(file);
  bytes.back() ^= 1;
  test::write_file(file, bytes);
  CHECK_FALSE(JobState(directory / "state", key("a")).get("blob"));
  test::write_file(file, bytes.substr(0, 5));
  CHECK_FALSE(JobState(directory / "state", key("a")).get("blob"));
}

TEST_CASE("two processes do not work in one folder") {
  const TemporaryDirectory directory;
  const JobState state(directory / "state", key("a"));
  CHECK(error_message([&] { JobState(directory / "state", key("a")); }) == Contains("another ballast"));
}

TEST_CASE("a job that is refused because another process runs it leaves that process's progress") {
  const TemporaryDirectory directory;
  const fs::path folder = directory / "state";
  JobState state(folder, key("a"));
  state.put("blob", "x");
  CHECK_THROWS_AS(
      keep_progress_for_retry([&] { JobState(folder, key("a")); }, [&] { JobState::remove_folders(folder); }),
      FileError);
  JobState::remove_folders(folder);
  CHECK(state.get("blob") == "x");
}

TEST_CASE("removing a job's folder removes those of its ranks, and no others") {
  const TemporaryDirectory directory;
  for (const char* name : {"s", "s-1-of-2", "s-2-of-2", "s-calibration", "s-1-of-2x", "t-1-of-2"}) {
    JobState(directory / name, key("a")).put("blob", "x");
  }
  JobState::remove_folders(directory / "s");
  for (const char* gone : {"s", "s-1-of-2", "s-2-of-2"}) CHECK_FALSE(fs::exists(directory / gone));
  for (const char* left : {"s-calibration", "s-1-of-2x", "t-1-of-2"}) CHECK(fs::exists(directory / left));
}

TEST_CASE("a stage is saved when saving takes at most a tenth of the time since the last one") {
  const TemporaryDirectory directory;
  JobState::Time now{};
  JobState state(directory / "state", key("a"), [&now] { return now; });
  CHECK(state.worth_saving());
  const auto save_for_two_seconds = [&] { now += std::chrono::seconds(2); };
  state.save_stage(save_for_two_seconds);
  CHECK_FALSE(state.worth_saving());
  now += std::chrono::seconds(19);
  CHECK_FALSE(state.worth_saving());
  now += std::chrono::seconds(1);
  CHECK(state.worth_saving());
  state.save_stage([] {});
  CHECK(state.worth_saving());
}

TEST_CASE("a job continues if nothing can be saved, and knows the reason") {
  const TemporaryDirectory directory;
  test::write_file(directory / "file", "");
  JobState state(directory / "file" / "state", key("a"));
  CHECK_FALSE(state.put("blob", "x"));
  CHECK_FALSE(state.worth_saving());
  CHECK(state.problem().find("cannot be created") != std::string::npos);
}

TEST_CASE("a disk that fills up while saving ends the saving and leaves no files") {
  const TemporaryDirectory directory;
  JobState state(directory / "state", key("a"));
  CHECK(state.put("blob", "x"));
  fs::create_directory(directory / "state" / "next.blob.partial");  // prevents the creation of the file
  test::write_file(directory / "state" / "next.blob.partial" / "x", "");
  CHECK_FALSE(state.put("next", "y"));
  CHECK_FALSE(state.problem().empty());
  CHECK_FALSE(state.put("blob", "x"));
  CHECK_FALSE(fs::exists(directory / "state" / "blob.blob"));
}

}  // namespace
}  // namespace ballast::jobs
