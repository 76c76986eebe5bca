// A model behind HTTP, in the words of OpenAI's API.
#ifndef BALLAST_SERVE_H_
#define BALLAST_SERVE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/threads.h"

namespace ballast {

struct ServeOptions {
  std::string host = "127.0.0.1";  ///< the address to listen at
  std::uint16_t port = 8080;       ///< 0: any that is free
  /// Lines "NAME KEY": who may ask. Empty: anybody who reaches the address, which must then be the machine's own, or
  /// open_to_all be set.
  std::filesystem::path api_keys{};
  bool open_to_all = false;
  std::vector<std::string> allowed_hosts{};  ///< names that requests may reach it by, besides localhost and `host`
  std::filesystem::path certificate{};       ///< chain in PEM, with its key: TLS
  std::filesystem::path private_key{};
  std::string model_name{};           ///< what clients call it; empty: the path's last part
  bool any_model_name = false;        ///< requests that name another model are answered, too
  std::string reply_format = "auto";  ///< of chats: GenerateOptions::reply_format
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
  ModelOptions model{};
  std::uint64_t cache_bytes = 0;  ///< for what is kept of all texts; 0: half of what is available
  std::size_t most_running = 64;  ///< texts in one step
  std::size_t most_waiting = 256;
  /// For what all requests hold together beside that: their bodies, what is made of them, and their answers until they
  /// are sent. One request may hold a quarter.
  std::uint64_t request_bytes = std::uint64_t{512} << 20;
  std::size_t most_tokenized = std::size_t{1} << 18;  ///< tokens that /tokenize and /detokenize take
  double longest_wait = 0;             ///< seconds, by the estimate, beyond which a request is refused; 0: any
  double target_itl = 0.150;           ///< seconds between two tokens of a text while prompts of others are read
  std::filesystem::path statistics{};  ///< what calibrate measured, for the page to show; empty: it shows none
  bool log_prompts = false;
  ThreadOptions threads{};

  /// Gets a line of JSON for all that happens, without a line break, from a thread of its own. Returns false, soon,
  /// where nobody takes the line now: it is then asked again, and lines that come meanwhile wait, or are dropped and
  /// counted.
  std::function<bool(std::string_view line)> log{};

  /// Asked ten times a second; once true, the server answers what it has accepted, and ends.
  std::function<bool()> stop_requested{};
};

/// Loads a model and serves it until it is told to stop. Throws Error for a model that cannot be read or generated
/// with, and when it cannot listen.
void run_server(const std::filesystem::path& model, const ServeOptions& options);

}  // namespace ballast

#endif  // BALLAST_SERVE_H_
