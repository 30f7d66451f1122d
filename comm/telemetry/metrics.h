#pragma once
// Metrics: typed handles into one registry, exported in the Prometheus text format 0.0.4.
// Label sets are closed: their values are enumerators or instance names of the configuration, never
// text a client sent.

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/runtime/check.h"
#include "comm/runtime/clock.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace tandem::telemetry {

// The Content-Type that belongs to MetricsRegistry::text().
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Handles are small values that point into their registry and must not outlive it. Thread-safe
// (atomic), never block.
class Counter {
 public:
  Counter() = default;
  // Requires: amount >= 0.
  void add(double amount = 1);
  double value() const;

 private:
  friend class MetricsRegistry;
  explicit Counter(prometheus::Counter& impl) : impl_(&impl) {}
  prometheus::Counter* impl_ = nullptr;
};

class Gauge {
 public:
  Gauge() = default;
  void set(double value);
  void add(double amount);
  double value() const;

 private:
  friend class MetricsRegistry;
  explicit Gauge(prometheus::Gauge& impl) : impl_(&impl) {}
  prometheus::Gauge* impl_ = nullptr;
};

class Histogram {
 public:
  Histogram() = default;
  void observe(double value);
  void observe(Duration duration) { observe(to_seconds(duration)); }

 private:
  friend class MetricsRegistry;
  explicit Histogram(prometheus::Histogram& impl) : impl_(&impl) {}
  prometheus::Histogram* impl_ = nullptr;
};

using Labels = std::map<std::string, std::string>;

// One metric per enumerator of E. E counts from 0 and ends with kCount.
template <typename M, typename E>
class MetricBy {
 public:
  static constexpr size_t kSize = static_cast<size_t>(E::kCount);
  M& operator[](E at) {
    CHECK_LT(static_cast<size_t>(at), kSize);
    return metrics_[static_cast<size_t>(at)];
  }
  const M& operator[](E at) const { return const_cast<MetricBy&>(*this)[at]; }

 private:
  std::array<M, kSize> metrics_;
};
template <typename E>
using CounterBy = MetricBy<Counter, E>;
template <typename E>
using GaugeBy = MetricBy<Gauge, E>;
template <typename E>
using HistogramBy = MetricBy<Histogram, E>;
// The label values of E, in order.
template <typename E>
using LabelValues = std::array<const char*, static_cast<size_t>(E::kCount)>;

// Bucket bounds in seconds for request-level latencies: 1 ms to 960 s.
std::vector<double> latency_buckets();
// Bucket bounds in seconds for steps and gaps between tokens: 0.1 ms to 480 s.
std::vector<double> fine_latency_buckets();
// 0.1, 0.2 … 1.0.
std::vector<double> share_buckets();

// Owned by main or by a test. All methods are thread-safe; families are registered at start, in the
// order they are to be exported. Asking for a name twice with other labels extends the family.
class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // Starts exported as 0. Requires: name ends in "_total" (for a counter), is a valid metric name,
  // and always comes with the same type and the same label names.
  Counter counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  // Requires: bounds increase.
  Histogram histogram(const std::string& name, const std::string& help,
                      const std::vector<double>& bounds, const Labels& labels = {});

  template <typename E>
  CounterBy<E> counter_by(const std::string& name, const std::string& help,
                          const std::string& label, const LabelValues<E>& values,
                          Labels labels = {}) {
    CounterBy<E> all;
    for (size_t i = 0; i < values.size(); ++i) {
      labels[label] = values[i];
      all[static_cast<E>(i)] = counter(name, help, labels);
    }
    return all;
  }
  template <typename E>
  GaugeBy<E> gauge_by(const std::string& name, const std::string& help, const std::string& label,
                      const LabelValues<E>& values, Labels labels = {}) {
    GaugeBy<E> all;
    for (size_t i = 0; i < values.size(); ++i) {
      labels[label] = values[i];
      all[static_cast<E>(i)] = gauge(name, help, labels);
    }
    return all;
  }

  // The exposition of everything, to be served with kMetricsContentType.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::telemetry
