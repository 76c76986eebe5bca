#include "serve/model_files.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/statistics.h"
#include "engine/loaded_model.h"
#include "engine/speculation.h"
#include "jobs/memory.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "serve/api/outliers_format.h"
#include "serve/http/thread_priority.h"
#include "text/chat/chat_prompt.h"
#include "text/reply/reply_format.h"

namespace ballast::serve {
namespace {

std::string name_of(const ServedModel& model) {
  if (!model.name.empty()) return model.name;
  const std::filesystem::path whole = std::filesystem::absolute(model.path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

nlohmann::ordered_json entry_of(const std::string& name) {
  return {{"id", name}, {"object", "model"}, {"created", std::time(nullptr)}, {"owned_by", "ballast"}};
}

/// Returns what a model can do, in Ollama's words.
std::vector<std::string> capabilities(const ModelSpec& spec, const text::Tokenizer* tokenizer,
                                      const std::string& reply_format) {
  const bool thinks = tokenizer != nullptr && text::can_think(text::find_reply_format(*tokenizer, reply_format));
  if (!spec.causal || !spec.has_head) return {"embedding"};
  std::vector<std::string> all = {"completion"};
  if (tokenizer != nullptr && text::template_takes_tools(*tokenizer)) all.emplace_back("tools");
  if (thinks) all.emplace_back("thinking");
  return all;
}

/// `tokenizer`: null: the model has none. Throws Error for an unknown format of replies.
ModelDescription description_of(const ServedModel& model, const model::ModelSource& source,
                                const text::Tokenizer* tokenizer, std::size_t context_length) {
  const std::uint64_t bytes = source.checkpoint().file_bytes();
  const std::size_t weights = model::count_weights(source.spec());
  ModelDescription description = {.about = entry_of(name_of(model))};
  description.about.update({{"max_model_len", context_length},
                            {"bits", 8.0 * static_cast<double>(bytes) / static_cast<double>(weights)},
                            {"size", bytes},
                            {"parameters", weights},
                            {"architecture", source.spec().architecture},
                            {"capabilities", capabilities(source.spec(), tokenizer, model.reply_format)}});
  if (tokenizer != nullptr) description.chat_template = tokenizer->chat_template();
  return description;
}

/// Returns the size of a model's tensor files; 0 if they cannot be read.
std::uint64_t size_of_files(const std::filesystem::path& path) {
  std::error_code error;
  std::uint64_t bytes = 0;
  const auto add = [&](const std::filesystem::path& file) {
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += size;
  };
  if (!std::filesystem::is_directory(path, error)) {
    add(path);
    return bytes;
  }
  std::filesystem::directory_iterator files(path, error);
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    if (files->path().extension() == ".safetensors") add(files->path());
  }
  return bytes;
}

/// Estimates the memory of a model's weights: loaded matrices take about as much as in the files, but experts that stay
/// on disk take none.
std::uint64_t weight_bytes(const std::filesystem::path& path, const ModelOptions& options) {
  const model::ModelSource source(path);
  const std::uint64_t bytes = source.checkpoint().file_bytes();
  if (options.expert_bytes == 0) return bytes;
  std::uint64_t experts = 0;
  for (std::size_t layer = 0; layer < source.spec().layers.size(); ++layer) {
    for (const model::Part& part : model::block_linears(source.spec(), layer)) {
      if (model::role_row(part.role).place != model::RoleRow::Place::kExpert) continue;
      experts += source.stored_bytes(part.role, layer, part.expert);
    }
  }
  return bytes - std::min(bytes, experts) + std::min(experts, options.expert_bytes);
}

/// Returns the options of a model itself.
ModelOptions own_options(const ServedModel& model) {
  ModelOptions options = model.options;
  options.draft_head = model.draft_tokens > 0 && model.draft.empty();
  return options;
}

/// Returns the options of a draft model.
ModelOptions draft_options(const ServedModel& model) {
  return {.compute = model.options.compute, .tell = model.options.tell};
}

/// A loaded model with its scheduler. Members that use others are after them.
class LoadedFromFiles : public ResidentModel {
 public:
  /// `statistics`: of calibrate; null: none. Throws Error.
  LoadedFromFiles(const ServedModel& model, const SchedulerOptions& options, const Statistics* statistics,
                  EngineLoop& loop)
      : loaded_(model.path, own_options(model)), loop_(loop) {
    SchedulerOptions scheduling = options;
    if (!model.draft.empty()) {
      draft_.emplace(model.draft, draft_options(model));
      scheduling.draft = &*draft_;
    }
    if (scheduling.cache_bytes == 0) scheduling.cache_bytes = jobs::available_memory() / 2;
    scheduler_.emplace(loaded_, scheduling);
    ready_.emplace(ReadyModel{.loaded = loaded_,
                              .scheduler = *scheduler_,
                              .name = name_of(model),
                              .reply_format = model.reply_format,
                              .cache_type = options.cache_type,
                              .description = description_of(model, loaded_.model.source(), loaded_.own_tokenizer.get(),
                                                            scheduler_->context_length())});
    if (statistics != nullptr) {
      ready_->outliers = outliers_json(*statistics, loaded_, model.statistics.string());
    }
    loop_.add(*scheduler_, model.share);
  }

  ~LoadedFromFiles() override {
    loop_.remove(*scheduler_);
    try {
      scheduler_->write_texts();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory; the texts are read again when needed
    }
  }

  const ReadyModel& ready() const override { return *ready_; }

 private:
  engine::LoadedModel loaded_;
  std::optional<engine::LoadedModel> draft_;
  EngineLoop& loop_;
  std::optional<Scheduler> scheduler_;
  std::optional<ReadyModel> ready_;
};

}  // namespace

RegisteredModel registered_model(const ServedModel& model) {
  RegisteredModel registered = {.name = name_of(model), .aliases = model.aliases};
  registered.about = entry_of(registered.name);
  registered.about["size"] = size_of_files(model.path);
  return registered;
}

void check_served(const ServedModel& model) {
  const auto check = [](const std::filesystem::path& path) {
    std::error_code error;
    if (!path.empty() && !std::filesystem::exists(path, error)) throw Error(path.string(), "does not exist");
  };
  check(model.path);
  check(model.draft);
  check(model.statistics);
  check(model.options.chat_template);
  engine::check_draft_tokens(model.draft_tokens);
}

std::uint64_t ModelFiles::cache_bytes_of(const ServedModel& model) const {
  return model.cache_bytes != 0 ? model.cache_bytes : cache_bytes_;
}

ModelMemory ModelFiles::estimate(std::size_t model) {
  const ServedModel& served = models_[model];
  ModelMemory memory = {.weights = weight_bytes(served.path, served.options), .cache = cache_bytes_of(served)};
  if (!served.draft.empty()) memory.weights += weight_bytes(served.draft, draft_options(served));
  return memory;
}

ModelDescription ModelFiles::describe(std::size_t model) const {
  const ServedModel& served = models_[model];
  model::ModelSource source(served.path);
  source.lengthen_for(served.options.context);
  const std::unique_ptr<text::Tokenizer> tokenizer = engine::load_tokenizer(source, served.options);
  return description_of(served, source, tokenizer.get(), source.context_length());
}

std::unique_ptr<ResidentModel> ModelFiles::load_here(const ServedModel& model) const {
  const SchedulerOptions scheduling = {.cache_type = options_.cache_type,
                                       .cache_bytes = cache_bytes_of(model),
                                       .most_running = options_.most_running,
                                       .most_waiting = options_.most_waiting,
                                       .longest_wait = options_.longest_wait,
                                       .target_itl = options_.target_itl,
                                       .draft_tokens = model.draft_tokens,
                                       .disk_cache = make_disk_cache_(),
                                       .on_accepted = [&loop = loop_] { loop.wake(); }};
  std::optional<Statistics> statistics;
  if (!model.statistics.empty()) statistics = load_statistics(model.statistics);
  return std::make_unique<LoadedFromFiles>(model, scheduling, statistics ? &*statistics : nullptr, loop_);
}

std::unique_ptr<ResidentModel> ModelFiles::load(std::size_t model) {
  if (loading_ == Loading::kOnThisThread) return load_here(models_[model]);
  constexpr int kNiceness = 4;
  std::unique_ptr<ResidentModel> loaded;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      lower_priority(kNiceness);
      use_threads({.count = options_.threads.count, .pin = false});
      loaded = load_here(models_[model]);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return loaded;
}

}  // namespace ballast::serve
