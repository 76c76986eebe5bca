// Serves models over HTTP with OpenAI's API.
#ifndef BALLAST_SERVE_H_
#define BALLAST_SERVE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/adapter.h"
#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/threads.h"

namespace ballast {

/// An adapter of a server, and its name for clients.
struct NamedAdapter {
  std::string name{};
  AdapterFiles files{};
};

/// A model of a server.
struct ServedModel {
  std::filesystem::path path{};
  std::string name{};                  ///< for clients; empty: the path's last part
  std::vector<std::string> aliases{};  ///< further names
  std::filesystem::path draft{};       ///< a smaller model with the same tokenizer, which drafts tokens; empty: none
  std::size_t draft_tokens = 8;        ///< as GenerateOptions::draft_tokens; 0: none
  std::filesystem::path statistics{};  ///< output of calibrate, for the page; empty: not shown
  std::string reply_format = "auto";   ///< for chats: GenerateOptions::reply_format
  std::uint64_t cache_bytes = 0;       ///< for the cache of its texts; 0: ServeOptions::cache_bytes
  double share = 1;                    ///< of the computing time while other models have work: 2 is twice that of 1
  ModelOptions options{};
};

struct ServeOptions {
  std::string host = "127.0.0.1";  ///< the address to listen on
  std::uint16_t port = 8080;       ///< 0: any that is free
  /// File with lines "NAME KEY": the allowed clients. Empty: all clients; the address must then be a loopback address,
  /// or open_to_all be set.
  std::filesystem::path api_keys{};
  bool open_to_all = false;
  std::vector<std::string> allowed_hosts{};  ///< additional host names of requests, besides localhost and `host`
  std::filesystem::path certificate{};       ///< chain in PEM, with its key: TLS
  std::filesystem::path private_key{};
  /// Of an only model: requests choose one by its name. With `runtime_adapters` clients may also load others, from any
  /// file that the server can read.
  std::vector<NamedAdapter> adapters{};
  bool runtime_adapters = false;
  bool any_model_name = false;  ///< requests that name another model are answered, too, by the first one
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
  /// Of each model, for the cache of all its texts. 0: half of the available memory; with several models an eighth of
  /// models_bytes.
  std::uint64_t cache_bytes = 0;
  /// For all loaded models together, their weights and caches, where there are several; 0: four fifths of the available
  /// memory.
  std::uint64_t models_bytes = 0;
  /// Directory for beginnings of texts that continue to be known after a restart, and the most bytes of its files.
  /// Empty: they are kept only in memory.
  std::filesystem::path cache_directory{};
  std::uint64_t cache_disk_bytes = std::uint64_t{20'000'000'000};
  std::size_t most_running = 64;   ///< texts in one step of a model
  std::size_t most_waiting = 256;  ///< requests for each model, and requests that wait for a model to be loaded
  /// For the other memory of all requests together: their bodies, the parsed data, and their answers until they are
  /// sent. One request may use a quarter.
  std::uint64_t request_bytes = std::uint64_t{512} << 20;
  std::size_t most_tokenized = std::size_t{1} << 18;  ///< for /tokenize and /detokenize
  double longest_wait = 0;    ///< estimated seconds above which a request is refused; 0: no limit
  double target_itl = 0.150;  ///< seconds between two tokens of a text while other prompts are read
  bool log_prompts = false;
  ThreadOptions threads{};

  /// Receives a line of JSON for each event, without a line break, on a separate thread. It must return soon; if it
  /// returns false because the line cannot be written now, it is called again, and lines that arrive meanwhile wait, or
  /// are dropped and counted.
  std::function<bool(std::string_view line)> log{};

  /// Is called ten times a second; once it returns true, the server answers the accepted requests and ends.
  std::function<bool()> stop_requested{};
};

/// Serves models until stop_requested. An only model is loaded first; several are loaded when requests ask for them,
/// and unloaded when others need the memory. Throws Error for an only model that cannot be read or cannot generate, for
/// two models with the same name, adapters that are wrong or of several models, and if the server cannot listen.
void run_server(const std::vector<ServedModel>& models, const ServeOptions& options);

}  // namespace ballast

#endif  // BALLAST_SERVE_H_
