#include "serve/service/metrics_text.h"

#include <sstream>
#include <string_view>

namespace ballast::serve {
namespace {

class MetricsWriter {
 public:
  template <class Number>
  void write(std::string_view name, std::string_view type, std::string_view help, Number value) {
    head(name, type, help);
    out_ << "ballast_" << name << ' ' << value << '\n';
  }

  void write(std::string_view name, std::string_view label, std::string_view help,
             const std::map<std::string, std::uint64_t>& values, std::string_view type = "counter") {
    head(name, type, help);
    for (const auto& [value_of_label, value] : values) {
      out_ << "ballast_" << name << '{' << label << "=\"" << value_of_label << "\"} " << value << '\n';
    }
  }

  void write(std::string_view name, std::string_view help, const Histogram& histogram) {
    head(name, "histogram", help);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
      count += histogram.counts()[i];
      out_ << "ballast_" << name << "_bucket{le=\"";
      if (i < histogram.bounds().size()) {
        out_ << histogram.bounds()[i];
      } else {
        out_ << "+Inf";
      }
      out_ << "\"} " << count << '\n';
    }
    out_ << "ballast_" << name << "_sum " << histogram.sum() << '\n'
         << "ballast_" << name << "_count " << count << '\n';
  }

  std::string take() { return std::move(out_).str(); }

 private:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ << "# HELP ballast_" << name << ' ' << help << "\n# TYPE ballast_" << name << ' ' << type << '\n';
  }

  std::ostringstream out_;
};

}  // namespace

std::string metrics_text(const SchedulerStats& stats, const RequestStats& requests) {
  MetricsWriter writer;
  const auto part = [](std::uint64_t value, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(value) / static_cast<double>(whole);
  };
  const std::uint64_t page = stats.page_bytes == 0 ? 1 : stats.page_bytes;
  const std::uint64_t used = stats.cache_bytes + stats.mixer_bytes;
  const std::uint64_t free = stats.cache_budget > used ? stats.cache_budget - used : 0;
  writer.write("num_requests_running", "gauge", "Running requests.", stats.running);
  writer.write("num_requests_waiting", "gauge", "Waiting requests.", stats.waiting);
  writer.write("kv_cache_usage_perc", "gauge", "Used fraction of the cache memory.", part(used, stats.cache_budget));
  writer.write("kv_cache_pages", "state", "Pages of 128 tokens: used by one text, by several, and free.",
               {{"used", (stats.cache_bytes - stats.shared_bytes) / page},
                {"shared", stats.shared_bytes / page},
                {"free", free / page}},
               "gauge");
  writer.write("mixer_state_bytes", "gauge", "Memory of the states of recurrent layers.", stats.mixer_bytes);
  writer.write("prefix_cache_texts", "gauge", "Texts in the prefix cache.", stats.cached_texts);
  writer.write("prefix_cache_queries_total", "counter", "Tokens of prompts that were searched in the prefix cache.",
               stats.prefix_queries);
  writer.write("prefix_cache_hits_total", "counter", "Tokens of prompts that were found in the prefix cache.",
               stats.prefix_hits);
  if (stats.disk.used) {
    writer.write("disk_cache_bytes", "gauge", "Bytes in the directory of the prefix cache.", stats.disk.bytes);
    writer.write("disk_cache_files", "gauge", "Files in the directory of the prefix cache.", stats.disk.files);
    writer.write("disk_cache_hits_total", "counter", "Tokens of prompts that came back from the directory.",
                 stats.disk.hits);
    writer.write("disk_cache_read_bytes_total", "counter", "Bytes that were read from the directory.",
                 stats.disk.read_bytes);
    writer.write("disk_cache_written_bytes_total", "counter", "Bytes that were written to the directory.",
                 stats.disk.written_bytes);
    writer.write("disk_cache_unreadable_total", "counter", "Files of the directory that were damaged.",
                 stats.disk.unreadable);
  }
  writer.write("num_preemptions_total", "counter", "Requests that were preempted and began again.", stats.preemptions);
  writer.write("prompt_tokens_total", "counter", "Tokens of prompts that were read.", stats.prompt_tokens);
  writer.write("generation_tokens_total", "counter", "Tokens that were generated.", stats.generated_tokens);
  writer.write("spec_decode_num_draft_tokens_total", "counter", "Draft tokens that were checked.", stats.draft_tokens);
  writer.write("spec_decode_num_accepted_tokens_total", "counter", "Draft tokens that were accepted.",
               stats.accepted_draft_tokens);
  if (stats.experts_on_disk) {
    writer.write("expert_cache_queries_total", "counter", "Experts to which a layer's tokens were routed.",
                 stats.experts_used);
    writer.write("expert_cache_hits_total", "counter", "Of these, experts that were in memory.", stats.experts_found);
    writer.write("expert_cache_bytes", "gauge", "Memory of the loaded experts.", stats.expert_bytes);
  }
  if (stats.fastest_tokens > 0) {
    writer.write("generation_limit_tokens_per_second", "gauge",
                 "Upper bound of one text's tokens per second, from the memory bandwidth.", stats.fastest_tokens);
  }
  writer.write("request_success_total", "finished_reason", "Texts that ended, by reason.", stats.finished);
  writer.write("request_rejections_total", "reason", "Requests that were not accepted, by reason.",
               requests.rejections);
  writer.write("request_memory_bytes", "gauge", "Memory of requests without the cache.", requests.memory_bytes);
  writer.write("request_memory_refusals_total", "counter", "Requests that were refused because the memory was in use.",
               requests.memory_refusals);
  writer.write("log_lines_dropped_total", "counter", "Lines of the log that were not read in time.",
               requests.dropped_log_lines);
  writer.write("time_to_first_token_seconds", "From arrival to the first token.", stats.first_token);
  writer.write("inter_token_latency_seconds", "Between two tokens of a text.", stats.between_tokens);
  writer.write("request_queue_time_seconds", "From arrival to the engine.", stats.queued);
  writer.write("e2e_request_latency_seconds", "From arrival to the end.", stats.end_to_end);
  return writer.take();
}

}  // namespace ballast::serve
