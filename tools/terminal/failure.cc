#include "tools/terminal/failure.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "ballast/error.h"
#include "ballast/ranks.h"
#include "tools/commands/commands.h"
#include "tools/terminal/console.h"
#include "tools/terminal/interrupt.h"

namespace ballast::tools {

namespace {

// Ending all ranks takes a tenth of this on an idle machine.
constexpr auto kTurn = std::chrono::milliseconds(500);

}  // namespace

bool leave_to_first_rank() {
  if (launched_rank() == 0) return false;
  std::this_thread::sleep_for(kTurn);
  return true;
}

void wait_for_turn() {
  std::this_thread::sleep_for(kTurn * launched_rank());
}

void print_error(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  print_message("ballast: " + message + "\n");
}

int report_failure() {
  try {
    throw;
  } catch (const OutputClosed&) {
    return kExitDone;
  } catch (const Interrupted& interrupt) {
    // The launcher reports the signals that it sends to its processes.
    if (launched_ranks() == 1) print_error(interrupt.what());
    return interrupt.exit_code();
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& error) {
    const std::optional<FileError> cause = take_lost_file();
    print_error(cause ? cause->what() : error.what());
  }
  return kExitFailed;
}

}  // namespace ballast::tools
