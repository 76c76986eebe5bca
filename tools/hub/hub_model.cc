#include "tools/hub/hub_model.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/hub_name.h"
#include "ballast/ranks.h"
#include "tools/hub/hub_script.h"
#include "tools/terminal/console.h"
#include "tools/terminal/interrupt.h"

namespace ballast::tools {
namespace {

// Exit codes of the script, and of shells for a program that they do not find.
constexpr int kNoLibrary = 3;
constexpr int kNoProgram = 127;

struct ScriptResult {
  int exit_code = kNoProgram;
  std::string output;  ///< its last line
};

/// Returns the interpreter of the Python package to which this program belongs, else the usual one.
const char* python() {
  const char* of_package = std::getenv("BALLAST_PYTHON");
  return of_package != nullptr ? of_package : "python3";
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text.substr(text.rfind('\n') + 1);
}

int exit_code_of(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) return kNoProgram;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs the script; what it shows of its progress goes to this program's standard error.
ScriptResult run_script(const HubName& name) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {};
  std::vector<std::string> words = {python(), "-c", hub_script(), name.repository, name.file, name.revision};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  ScriptResult result;
  if (error == 0) {
    result.output = last_line(read_all(pipe[0]));
    result.exit_code = exit_code_of(process);
  }
  ::close(pipe[0]);
  return result;
}

}  // namespace

std::filesystem::path local_model(const std::filesystem::path& model) {
  const std::optional<HubName> name = parse_hub_name(model);
  if (!name) return model;
  // One of the ranks fetches, the others wait for its locks.
  if (launched_rank() != 0) ::setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1", 1);
  const InterruptGuard guard;  // Ctrl-C also ends the script, which then keeps what it has fetched
  const ScriptResult result = run_script(*name);
  if (const int signal = pending_interrupt(); signal != 0) throw Interrupted(signal);
  if (result.exit_code == kNoProgram || result.exit_code == kNoLibrary) return model;
  if (result.exit_code != 0) {
    throw Error(model.string(), result.output.empty()
                                    ? "huggingface_hub ended with code " + std::to_string(result.exit_code)
                                    : result.output);
  }
  if (launched_rank() == 0) print_message(model.string() + " is from the Hub, in " + result.output + "\n");
  return result.output;
}

}  // namespace ballast::tools
