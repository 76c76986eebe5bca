#include "serve/service/metrics_text.h"

#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace ballast::serve {
namespace {

/// Returns the labels of a sample: "{model="a",le="1"}"; `labels` may be empty, as may the model.
std::string with_model(const std::string& model, const std::string& labels) {
  if (model.empty()) return labels.empty() ? "" : "{" + labels + "}";
  std::string escaped;
  for (const char letter : model) {
    if (letter == '\\' || letter == '"') escaped += '\\';
    escaped += letter == '\n' ? ' ' : letter;
  }
  return "{model=\"" + escaped + "\"" + (labels.empty() ? "" : ",") + labels + "}";
}

std::string label(std::string_view name, std::string_view value) {
  return std::string(name) + "=\"" + std::string(value) + "\"";
}

class MetricsWriter {
 public:
  explicit MetricsWriter(std::span<const ModelStats> models) : models_(models) {}

  template <class Number>
  void write(std::string_view name, std::string_view type, std::string_view help, Number value) {
    head(name, type, help);
    sample(name, "", value);
  }

  void write(std::string_view name, std::string_view label_name, std::string_view help,
             const std::map<std::string, std::uint64_t>& values) {
    head(name, "counter", help);
    for (const auto& [value_of_label, value] : values)
      sample(name, with_model("", label(label_name, value_of_label)), value);
  }

  /// Writes a sample of each model: `value_of` returns a number, or nullopt for no sample.
  template <class ValueOf>
  void write_models(std::string_view name, std::string_view type, std::string_view help, const ValueOf& value_of) {
    bool has_head = false;
    for (const ModelStats& model : models_) {
      const auto value = std::optional(value_of(model.stats));
      if (!value) continue;
      if (!std::exchange(has_head, true)) head(name, type, help);
      sample(name, with_model(model.model, ""), *value);
    }
  }

  /// Writes several samples of each model, one for each value of a label.
  template <class ValuesOf>
  void write_models(std::string_view name, std::string_view type, std::string_view label_name, std::string_view help,
                    const ValuesOf& values_of) {
    head(name, type, help);
    for (const ModelStats& model : models_) {
      const std::map<std::string, std::uint64_t> values = values_of(model.stats);
      for (const auto& [value_of_label, value] : values) {
        sample(name, with_model(model.model, label(label_name, value_of_label)), value);
      }
    }
  }

  void write_models(std::string_view name, std::string_view help, Histogram SchedulerStats::* histogram) {
    head(name, "histogram", help);
    for (const ModelStats& model : models_) write_histogram(name, model.model, model.stats.*histogram);
  }

  std::string take() { return std::move(out_).str(); }

 private:
  void write_histogram(std::string_view name, const std::string& model, const Histogram& histogram) {
    std::uint64_t count = 0;
    const std::string bucket = std::string(name) + "_bucket";
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
      count += histogram.counts()[i];
      std::ostringstream bound;
      if (i < histogram.bounds().size()) {
        bound << histogram.bounds()[i];
      } else {
        bound << "+Inf";
      }
      sample(bucket, with_model(model, label("le", bound.str())), count);
    }
    sample(std::string(name) + "_sum", with_model(model, ""), histogram.sum());
    sample(std::string(name) + "_count", with_model(model, ""), count);
  }

  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ << "# HELP ballast_" << name << ' ' << help << "\n# TYPE ballast_" << name << ' ' << type << '\n';
  }

  template <class Number>
  void sample(std::string_view name, const std::string& labels, Number value) {
    out_ << "ballast_" << name << labels << ' ' << value << '\n';
  }

  std::span<const ModelStats> models_;
  std::ostringstream out_;
};

std::uint64_t used_bytes(const SchedulerStats& stats) {
  return stats.cache_bytes + stats.mixer_bytes;
}

double used_fraction(const SchedulerStats& stats) {
  if (stats.cache_budget == 0) return 0;
  return static_cast<double>(used_bytes(stats)) / static_cast<double>(stats.cache_budget);
}

std::map<std::string, std::uint64_t> cache_pages(const SchedulerStats& stats) {
  const std::uint64_t page = stats.page_bytes == 0 ? 1 : stats.page_bytes;
  const std::uint64_t used = used_bytes(stats);
  const std::uint64_t free = stats.cache_budget > used ? stats.cache_budget - used : 0;
  return {{"used", (stats.cache_bytes - stats.shared_bytes) / page},
          {"shared", stats.shared_bytes / page},
          {"free", free / page}};
}

/// Returns a getter of a member, for write_models().
template <class Number>
auto get(Number SchedulerStats::* member) {
  return [member](const SchedulerStats& stats) { return stats.*member; };
}

/// Returns a getter of a member that only models with experts on disk have.
auto get_expert(std::uint64_t SchedulerStats::* member) {
  return [member](const SchedulerStats& stats) {
    return stats.experts_on_disk ? std::optional(stats.*member) : std::nullopt;
  };
}

/// Returns a getter of a figure that only models with a prefix cache on disk have.
template <class Number>
auto get_disk(Number DiskCacheStats::* member) {
  return [member](const SchedulerStats& stats) {
    return stats.disk.used ? std::optional(stats.disk.*member) : std::nullopt;
  };
}

}  // namespace

std::string metrics_text(std::span<const ModelStats> models, const RequestStats& requests) {
  using Stats = SchedulerStats;
  MetricsWriter writer(models);
  writer.write_models("num_requests_running", "gauge", "Running requests.", get(&Stats::running));
  writer.write_models("num_requests_waiting", "gauge", "Waiting requests.", get(&Stats::waiting));
  writer.write_models("kv_cache_usage_perc", "gauge", "Used fraction of the cache memory.", used_fraction);
  writer.write_models("kv_cache_pages", "gauge", "state",
                      "Pages of 128 tokens: used by one text, by several, and free.", cache_pages);
  writer.write_models("mixer_state_bytes", "gauge", "Memory of the states of recurrent layers.",
                      get(&Stats::mixer_bytes));
  writer.write_models("prefix_cache_texts", "gauge", "Texts in the prefix cache.", get(&Stats::cached_texts));
  writer.write_models("prefix_cache_queries_total", "counter",
                      "Tokens of prompts that were searched in the prefix cache.", get(&Stats::prefix_queries));
  writer.write_models("prefix_cache_hits_total", "counter", "Tokens of prompts that were found in the prefix cache.",
                      get(&Stats::prefix_hits));
  writer.write_models("disk_cache_bytes", "gauge", "Bytes in the directory of the prefix cache.",
                      get_disk(&DiskCacheStats::bytes));
  writer.write_models("disk_cache_files", "gauge", "Files in the directory of the prefix cache.",
                      get_disk(&DiskCacheStats::files));
  writer.write_models("disk_cache_hits_total", "counter", "Tokens of prompts that came back from the directory.",
                      get_disk(&DiskCacheStats::hits));
  writer.write_models("disk_cache_read_bytes_total", "counter", "Bytes that were read from the directory.",
                      get_disk(&DiskCacheStats::read_bytes));
  writer.write_models("disk_cache_written_bytes_total", "counter", "Bytes that were written to the directory.",
                      get_disk(&DiskCacheStats::written_bytes));
  writer.write_models("disk_cache_unreadable_total", "counter", "Files of the directory that were damaged.",
                      get_disk(&DiskCacheStats::unreadable));
  writer.write_models("num_preemptions_total", "counter", "Requests that were preempted and began again.",
                      get(&Stats::preemptions));
  writer.write_models("prompt_tokens_total", "counter", "Tokens of prompts that were read.",
                      get(&Stats::prompt_tokens));
  writer.write_models("generation_tokens_total", "counter", "Tokens that were generated.",
                      get(&Stats::generated_tokens));
  writer.write_models("spec_decode_num_draft_tokens_total", "counter", "Draft tokens that were checked.",
                      get(&Stats::draft_tokens));
  writer.write_models("spec_decode_num_accepted_tokens_total", "counter", "Draft tokens that were accepted.",
                      get(&Stats::accepted_draft_tokens));
  writer.write_models("expert_cache_queries_total", "counter", "Experts to which a layer's tokens were routed.",
                      get_expert(&Stats::experts_used));
  writer.write_models("expert_cache_hits_total", "counter", "Of these, experts that were in memory.",
                      get_expert(&Stats::experts_found));
  writer.write_models("expert_cache_bytes", "gauge", "Memory of the loaded experts.", get_expert(&Stats::expert_bytes));
  writer.write_models(
      "generation_limit_tokens_per_second", "gauge",
      "Upper bound of one text's tokens per second, from the memory bandwidth.",
      [](const Stats& stats) { return stats.fastest_tokens > 0 ? std::optional(stats.fastest_tokens) : std::nullopt; });
  writer.write_models("request_success_total", "counter", "finished_reason", "Texts that ended, by reason.",
                      get(&Stats::finished));
  writer.write("request_rejections_total", "reason", "Requests that were not accepted, by reason.",
               requests.rejections);
  writer.write("request_memory_bytes", "gauge", "Memory of requests without the cache.", requests.memory_bytes);
  writer.write("request_memory_refusals_total", "counter", "Requests that were refused because the memory was in use.",
               requests.memory_refusals);
  writer.write("log_lines_dropped_total", "counter", "Lines of the log that were not read in time.",
               requests.dropped_log_lines);
  writer.write_models("time_to_first_token_seconds", "From arrival to the first token.", &Stats::first_token);
  writer.write_models("inter_token_latency_seconds", "Between two tokens of a text.", &Stats::between_tokens);
  writer.write_models("request_queue_time_seconds", "From arrival to the engine.", &Stats::queued);
  writer.write_models("e2e_request_latency_seconds", "From arrival to the end.", &Stats::end_to_end);
  return writer.take();
}

}  // namespace ballast::serve
