#include "comm/telemetry/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

namespace tandem::telemetry {

void Counter::add(double amount) {
  CHECK(impl_ != nullptr);
  CHECK_GE(amount, 0);
  impl_->Increment(amount);
}

double Counter::value() const {
  CHECK(impl_ != nullptr);
  return impl_->Value();
}

void Gauge::set(double value) {
  CHECK(impl_ != nullptr);
  impl_->Set(value);
}

void Gauge::add(double amount) {
  CHECK(impl_ != nullptr);
  impl_->Increment(amount);
}

double Gauge::value() const {
  CHECK(impl_ != nullptr);
  return impl_->Value();
}

void Histogram::observe(double value) {
  CHECK(impl_ != nullptr);
  impl_->Observe(value);
}

std::vector<double> latency_buckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
          2.5,   5,      10,    20,   40,    80,   160, 320,  480, 960};
}

std::vector<double> fine_latency_buckets() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
          0.15,   0.25,    0.5,    1,     2.5,    5,     10,   30,    60,   120,   480};
}

std::vector<double> share_buckets() {
  return {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
}

namespace {

enum class Kind { kCounter, kGauge, kHistogram };

struct Known {
  Kind kind;
  std::vector<std::string> label_names;
  void* family;   // of the prometheus::Family of that kind, owned by the registry
};

std::vector<std::string> names_of(const Labels& labels) {
  std::vector<std::string> names;
  for (const auto& [name, value] : labels) names.push_back(name);
  return names;
}

}  // namespace

struct MetricsRegistry::Impl {
  prometheus::Registry registry;
  std::mutex mutex;
  std::map<std::string, Known> known;   // guarded by mutex

  // The family of that name, registered on first use.
  template <typename M, typename Builder>
  prometheus::Family<M>& family(Kind kind, Builder builder, const std::string& name,
                                const std::string& help, const Labels& labels) {
    const std::lock_guard lock(mutex);
    const auto found = known.find(name);
    if (found != known.end()) {
      CHECK(found->second.kind == kind);
      CHECK(found->second.label_names == names_of(labels));
      return *static_cast<prometheus::Family<M>*>(found->second.family);
    }
    auto& made = builder.Name(name).Help(help).Register(registry);
    known.emplace(name, Known{kind, names_of(labels), &made});
    return made;
  }
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::counter(const std::string& name, const std::string& help,
                                 const Labels& labels) {
  CHECK(std::string_view(name).ends_with("_total"));
  return Counter(impl_->family<prometheus::Counter>(Kind::kCounter, prometheus::BuildCounter(),
                                                    name, help, labels)
                     .Add(labels));
}

Gauge MetricsRegistry::gauge(const std::string& name, const std::string& help,
                             const Labels& labels) {
  CHECK(!std::string_view(name).ends_with("_total"));
  return Gauge(impl_->family<prometheus::Gauge>(Kind::kGauge, prometheus::BuildGauge(), name,
                                                help, labels)
                   .Add(labels));
}

Histogram MetricsRegistry::histogram(const std::string& name, const std::string& help,
                                     const std::vector<double>& bounds, const Labels& labels) {
  CHECK(!bounds.empty());
  CHECK(std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end());
  return Histogram(impl_->family<prometheus::Histogram>(
                            Kind::kHistogram, prometheus::BuildHistogram(), name, help, labels)
                       .Add(labels, bounds));
}

std::string MetricsRegistry::text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace tandem::telemetry
