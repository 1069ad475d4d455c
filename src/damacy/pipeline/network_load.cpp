#include "damacy/pipeline/network_load.h"

#include <algorithm>
#include <cmath>

#include "damacy/core/formatted.h"
#include "damacy/core/size_text.h"

namespace damacy {
namespace {

// Of the time in which a request is under way, at least, if reads are to wait for the network.
constexpr double kInUse = 0.5;
// More refusals than this are the server's limit.
constexpr double kOftenThrottled = 0.02;
// A request that waits for its first byte for more of its time is slow by the distance, not by the rate.
constexpr double kMostlyWaits = 0.5;
// Of max_requests, or of the requests that are allowed: from here on it is the limit.
constexpr double kNearlyAll = 0.7;

double rounded(double value, double unit) {
  return std::round(value / unit) * unit;
}

}  // namespace

double requests_under_way(const NetworkCounts::Seen& network, double seconds) {
  return seconds > 0 ? network.request_ms / 1e3 / seconds : 0;
}

StageLoad network_stage(const NetworkCounts::Seen& network, double seconds, double bytes_per_s) {
  const double most = static_cast<double>(std::max<std::int64_t>(network.most, 1));
  const double busy = std::clamp(requests_under_way(network, seconds) / most, 0.0, 1.0);
  return {"network", busy, busy > 0 ? bytes_per_s / busy : 0};
}

std::optional<NetworkLimit> network_limit(const NetworkCounts::Seen& network, double seconds, const Config& config) {
  const double under_way = requests_under_way(network, seconds);
  if (network.requests == 0 || under_way < kInUse) return std::nullopt;
  if (static_cast<double>(network.throttled) > kOftenThrottled * static_cast<double>(network.requests))
    return NetworkLimit{"server", formatted("no setting: the server refused {} of {} requests with 429 or 503",
                                            network.throttled, network.requests)};
  if (network.first_byte_ms < kMostlyWaits * network.request_ms)
    return NetworkLimit{"network", "no setting: bytes come as fast as the network or the server gives them"};
  if (under_way >= kNearlyAll * static_cast<double>(network.most))
    return NetworkLimit{"latency", formatted("more requests under way: StoreOptions(max_requests={}) (now {})",
                                             std::min<std::int64_t>(2 * network.most, 4096), network.most)};
  if (network.allowed > 0 && under_way >= kNearlyAll * static_cast<double>(network.allowed))
    return NetworkLimit{"network",
                        formatted("no setting: more than {} requests under way bring no more bytes", network.allowed)};
  return NetworkLimit{
      "latency",
      formatted("more reads under way: host_buffer_bytes={} (now {}), or lookahead_batches={} (now {}); {} of {} "
                "requests were, on average",
                2 * config.host_buffer_bytes, size_text(config.host_buffer_bytes), 2 * lookahead_of(config),
                lookahead_of(config), std::llround(under_way), network.most)};
}

std::string network_text(const NetworkCounts::Seen& network, double seconds, const Stats& stats) {
  std::string text = formatted("network: {} MB/s; {} of {} requests; first byte {} ms (p99 {} ms); {} % repeated",
                               std::llround(static_cast<double>(network.body_bytes) / seconds / 1e6),
                               std::llround(requests_under_way(network, seconds)), network.most,
                               std::llround(network.median_ms), std::llround(network.p99_ms),
                               rounded(100 * static_cast<double>(network.repeated) /
                                           static_cast<double>(std::max<std::int64_t>(network.requests, 1)),
                                       0.1));
  const double wanted = stats.decompress.input_bytes - static_cast<double>(stats.disk_hits_bytes);
  if (wanted > 0)
    text += formatted("; {} bytes per wanted byte", rounded(static_cast<double>(network.body_bytes) / wanted, 0.01));
  return text;
}

}  // namespace damacy
