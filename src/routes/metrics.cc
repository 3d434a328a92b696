#include "routes/metrics.h"

#include "wire/date.h"

namespace holdfast::routes {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

/// Others are one kind, so that nobody can fill our memory with words.
std::string_view known_method(std::string_view method) {
  for (const std::string_view known :
       {"GET", "HEAD", "OPTIONS", "POST", "PATCH", "PUT", "DELETE"}) {
    if (known == method) return known;
  }
  return "other";
}

void put_about(std::string& out, std::string_view name, std::string_view type,
               std::string_view help) {
  out += "# HELP holdfast_";
  out += name;
  out += ' ';
  out += help;
  out += "\n# TYPE holdfast_";
  out += name;
  out += ' ';
  out += type;
  out += '\n';
}

void put_value(std::string& out, std::string_view name, std::uint64_t value) {
  out += "holdfast_";
  out += name;
  out += ' ';
  out += std::to_string(value);
  out += '\n';
}

void put_number(std::string& out, std::string_view name, std::string_view type,
                std::string_view help, std::uint64_t value) {
  put_about(out, name, type, help);
  put_value(out, name, value);
}

void put_time(std::string& out, std::string_view name, std::string_view type, std::string_view help,
              std::chrono::nanoseconds time) {
  put_about(out, name, type, help);
  out += "holdfast_";
  out += name;
  out += ' ';
  wire::put_seconds(out, duration_cast<microseconds>(time));
  out += '\n';
}

}  // namespace

void Metrics::count(std::string_view method, int status, std::chrono::nanoseconds took) {
  ++requests_[{std::string(known_method(method)), status}];
  const std::int64_t micros = duration_cast<microseconds>(took).count();
  std::size_t bucket = 0;
  while (bucket < kBounds.size() && micros > kBounds.at(bucket)) ++bucket;
  ++buckets_.at(bucket);
  sum_ += took;
}

std::chrono::seconds Metrics::uptime() const {
  return duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
}

std::string Metrics::text(const Gauges& gauges) const {
  std::string out;
  put_about(out, "requests_total", "counter", "Requests answered, by method and status code.");
  for (const auto& [labels, number] : requests_) {
    out += "holdfast_requests_total{method=\"" + labels.first + "\",code=\"" +
           std::to_string(labels.second) + "\"} " + std::to_string(number) + "\n";
  }
  put_about(out, "request_seconds", "histogram", "From the first byte of a request to its answer.");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    total += buckets_.at(i);
    out += "holdfast_request_seconds_bucket{le=\"";
    if (i < kBounds.size()) {
      wire::put_seconds(out, microseconds(kBounds.at(i)));
    } else {
      out += "+Inf";
    }
    out += "\"} " + std::to_string(total) + "\n";
  }
  out += "holdfast_request_seconds_sum ";
  wire::put_seconds(out, duration_cast<microseconds>(sum_));
  out += "\nholdfast_request_seconds_count " + std::to_string(total) + "\n";

  put_number(out, "claims_active", "gauge", "Claims that are active.", gauges.totals.active);
  put_number(out, "claims_waiting", "gauge", "Claims that wait.", gauges.totals.waiting);
  put_number(out, "claims_kept", "gauge", "Claims that are known, ended ones included.",
             gauges.totals.claims);
  put_number(out, "resources", "gauge", "Resources with live claims.", gauges.totals.resources);
  put_number(out, "grants_total", "counter", "Claims made active by this server.",
             gauges.counters.granted);
  put_number(out, "expiries_total", "counter", "Claims expired by this server.",
             gauges.counters.expired);
  put_number(out, "commits_total", "counter", "Transactions committed.", gauges.counters.commits);
  put_number(out, "committed_changes_total", "counter", "Changed claims in them.",
             gauges.counters.committed_changes);
  put_number(out, "commit_failures_total", "counter", "Transactions that failed.",
             gauges.counters.commit_failures);
  put_time(out, "commit_seconds_total", "counter", "Time spent in commits, syncs included.",
           gauges.counters.commit_time);
  put_time(out, "commit_seconds_max", "gauge", "The longest commit since the start.",
           gauges.counters.commit_time_max);
  put_number(out, "connections", "gauge", "Open connections.", gauges.connections);
  put_number(out, "parked_requests", "gauge", "Requests that wait for news of a claim.",
             gauges.parked);
  put_number(out, "event_listeners", "gauge", "Open event streams.", gauges.listeners);
  put_number(out, "ready", "gauge", "1 if the database can be used.", gauges.is_ready ? 1 : 0);
  put_number(out, "uptime_seconds", "gauge", "Since the start.",
             static_cast<std::uint64_t>(uptime().count()));
  return out;
}

}  // namespace holdfast::routes
