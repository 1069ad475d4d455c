// Whether remote stores limit a stream of batches, and in which way, from the counts of their requests. Pure.
#pragma once

#include <optional>
#include <string>

#include "damacy/batch/config.h"
#include "damacy/fetch/stats.h"
#include "damacy/store/network_counts.h"

namespace damacy {

// Requests that were under way, on average.
[[nodiscard]] double requests_under_way(const NetworkCounts::Seen& network, double seconds);

// `bytes_per_s`: of finished batches.
[[nodiscard]] StageLoad network_stage(const NetworkCounts::Seen& network, double seconds, double bytes_per_s);

struct NetworkLimit {
  std::string binds;  // "server", "latency" or "network"
  std::string advice;
};
// What limits a stream that waits for reads; empty: hardly a request was under way.
[[nodiscard]] std::optional<NetworkLimit> network_limit(const NetworkCounts::Seen& network, double seconds,
                                                        const Config& config);

// "network: 412 MB/s; 96 of 256 requests; first byte 23 ms (p99 180 ms); 0.4 % repeated; 1.12 bytes per wanted byte".
[[nodiscard]] std::string network_text(const NetworkCounts::Seen& network, double seconds, const Stats& stats);

}  // namespace damacy
