#include "damacy/store/http/request_window.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace damacy::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using How = RequestWindow::How;

// A server far away, whose answers share one line. Time is simulated.
struct Model {
  std::string name;
  Clock::Time latency;
  double line = 0;                 // bytes per second; 0: no limit
  double answer_s = 0;             // of the server's time, for an answer
  std::size_t crowd = 0;           // from so many requests on each more costs a hundredth of the rate; 0: none does
  std::uint64_t bytes = 64 << 10;  // of an answer, on average
  double jitter = 0;               // of sizes and latencies
};

struct Rates {
  double before_s = 0, after_s = 0;        // bytes per second until `turn`, and from then on
  std::size_t largest = 0, last_most = 0;  // requests under way, in all; from `turn` on
};

// Runs as many requests as `allowed()` says until `end`, and tells `ended` of each.
template <class Allowed, class Ended>
Rates simulate(const Model& model, Clock::Time turn, Clock::Time end, Allowed allowed, Ended ended) {
  struct UnderWay {
    Clock::Time ends, began, first_byte;
    std::uint64_t bytes;
    bool operator<(const UnderWay& other) const { return ends > other.ends; }
  };
  std::mt19937_64 random(1);
  const auto vary = [&](double value) {
    return value * (1 + model.jitter * (2 * std::uniform_real_distribution<double>()(random) - 1));
  };
  std::priority_queue<UnderWay> under_way;
  Clock::Time now{}, line_is_free{};
  Rates rates;
  const auto send = [&] {
    const auto bytes = static_cast<std::uint64_t>(vary(static_cast<double>(model.bytes)));
    const double crowded = model.crowd > 0 && under_way.size() > model.crowd
                               ? 1 + 0.01 * static_cast<double>(under_way.size() - model.crowd)
                               : 1;
    const double s = (model.answer_s + (model.line > 0 ? static_cast<double>(bytes) / model.line : 0)) * crowded;
    const auto arrives = now + Clock::Time(std::llround(vary(static_cast<double>(model.latency.count()))));
    const Clock::Time begins = std::max(line_is_free, arrives);
    line_is_free = begins + Clock::Time(std::llround(s * 1e9));
    under_way.push({line_is_free, now, begins - now, bytes});
  };
  while (now < end) {
    while (under_way.size() < allowed()) send();
    rates.largest = std::max(rates.largest, under_way.size());
    if (now >= turn) rates.last_most = std::max(rates.last_most, under_way.size());
    const UnderWay one = under_way.top();
    const bool all_used = under_way.size() >= allowed();
    under_way.pop();
    now = one.ends;
    (now < turn ? rates.before_s : rates.after_s) += static_cast<double>(one.bytes);
    ended(now, RequestWindow::End{How::answered, one.bytes, one.began, all_used, one.first_byte});
  }
  rates.before_s /= std::chrono::duration<double>(turn).count();
  rates.after_s /= std::chrono::duration<double>(end - turn).count();
  return rates;
}

constexpr std::size_t kMost = 256;

double rate_of_fixed(const Model& model, std::size_t size) {
  return simulate(model, milliseconds(500), milliseconds(1500), [&] { return size; }, [](auto, const auto&) {}).after_s;
}

struct Best {
  std::size_t size = 0;  // the smallest that is as good as any
  double rate = 0;
};

Best best_fixed(const Model& model) {
  std::map<std::size_t, double> rates;
  Best best;
  for (std::size_t size = 1; size <= kMost; size += std::max<std::size_t>(size / 5, 1))
    rates[size] = rate_of_fixed(model, size);
  rates[kMost] = rate_of_fixed(model, kMost);
  for (const auto& [size, rate] : rates) best.rate = std::max(best.rate, rate);
  for (const auto& [size, rate] : rates) {
    if (rate < 0.98 * best.rate) continue;
    best.size = size;
    break;
  }
  return best;
}

Rates adapt(const Model& model, std::size_t most = kMost) {
  RequestWindow window;
  window.set_most(most);
  return simulate(
      model, seconds(3), seconds(6), [&] { return window.size(); },
      [&](Clock::Time now, const RequestWindow::End& end) { window.ended(now, end); });
}

std::vector<Model> models() {
  std::vector<Model> all;
  for (const int ms : {1, 10, 50}) {
    for (const std::uint64_t bytes : {64u << 10, 1u << 20}) {
      for (const double jitter : {0.0, 0.3}) {
        const auto add = [&](std::string name, double line, double answer_s, std::size_t crowd) {
          name += " at " + std::to_string(ms) + " ms, " + std::to_string(bytes >> 10) + " KiB, jitter " +
                  std::to_string(jitter);
          all.push_back({name, milliseconds(ms), line, answer_s, crowd, bytes, jitter});
        };
        add("no limit", 0, 0, 0);
        add("a server's processor", 0, 0.2e-3, 0);
        add("1 Gbit/s", 125e6, 0, 0);
        add("10 Gbit/s", 1.25e9, 0.02e-3, 0);
        add("a crowd", 500e6, 0.05e-3, 64);
      }
    }
  }
  return all;
}

TEST(RequestWindow, is_within_3_s_nearly_as_good_as_the_best_fixed_number) {
  for (const Model& model : models()) {
    const Best best = best_fixed(model);
    const Rates rates = adapt(model);
    EXPECT_GE(rates.after_s, 0.9 * best.rate) << model.name << ": best is " << best.size;
    if (model.line == 0) continue;
    EXPECT_LE(rates.last_most, std::max(2 * best.size, RequestWindow::kLeast * 5 / 4)) << model.name;
    EXPECT_LE(rates.largest, std::max(2 * best.size, RequestWindow::kStart * 5 / 4)) << model.name;
  }
}

// A busy machine takes the network thread's processor away: rates of one size differ by half.
TEST(RequestWindow, climbs_where_no_request_waits_for_others_however_much_rates_vary) {
  RequestWindow window;
  window.set_most(kMost);
  Clock::Time now{};
  std::mt19937_64 random(1);
  const auto run = [&](int answers, Clock::Time first_byte) {
    for (int i = 0; i < answers; ++i) {
      const bool waits = first_byte > milliseconds(50);
      const double varied = waits ? 1 : i % 500 < 250 ? 0.7 : 1.4;
      now += Clock::Time(std::llround(50e6 / static_cast<double>(waits ? 100 : window.size()) * varied));
      window.ended(now, {How::answered, 64 << 10, now - milliseconds(50), true, first_byte});
    }
  };
  run(20'000, milliseconds(50));
  EXPECT_EQ(window.size(), kMost);
  run(10'000, milliseconds(90));
  EXPECT_LT(window.size(), kMost) << "they wait now, and a smaller number brought as much";
}

TEST(RequestWindow, grows_in_the_time_of_an_answer_until_first_bytes_are_late) {
  RequestWindow window;
  window.set_most(kMost);
  Clock::Time now = milliseconds(50);
  const auto answer = [&](std::size_t count, Clock::Time first_byte) {
    for (std::size_t i = 0; i < count; ++i) window.ended(now, {How::answered, 64 << 10, {}, true, first_byte});
    now += milliseconds(50);
  };
  answer(32, milliseconds(50));
  EXPECT_EQ(window.size(), 96u);
  answer(96, milliseconds(50));
  EXPECT_EQ(window.size(), 128u);
  answer(128, milliseconds(100));
  const std::size_t reached = window.size();
  EXPECT_LT(reached, 160u) << "they wait for each other";
  answer(1, milliseconds(50));
  EXPECT_EQ(window.size(), reached) << "from now on by the rate";
}

// The first requests are sent together, and so their answers come together, and wait for each other.
TEST(RequestWindow, grows_at_once_though_answers_come_in_bursts) {
  const Model model{"a server's processor", milliseconds(50), 0, 0.2e-3};
  RequestWindow window;
  window.set_most(kMost);
  simulate(
      model, milliseconds(300), milliseconds(301), [&] { return window.size(); },
      [&](Clock::Time now, const RequestWindow::End& end) { window.ended(now, end); });
  EXPECT_EQ(window.size(), kMost) << "the line is hardly full";
}

TEST(RequestWindow, forgets_a_least_time_of_long_ago) {
  RequestWindow window;
  window.set_most(kMost);
  Clock::Time now{};
  const auto run = [&](Clock::Time first_byte) {
    for (int i = 0; i < 20'000; ++i) {
      now += milliseconds(2);  // whatever the number, as much comes
      window.ended(now, {How::answered, 64 << 10, now - first_byte, true, first_byte});
    }
  };
  run(milliseconds(10));
  EXPECT_EQ(window.size(), kMost);
  run(milliseconds(50));
  EXPECT_EQ(window.size(), kMost) << "50 ms are the least now";
}

TEST(RequestWindow, stays_within_its_bounds) {
  const Model far{"far", milliseconds(50)};
  for (const std::size_t most : {1u, 3u, 8u, 20u, 100u}) EXPECT_EQ(adapt(far, most).largest, most);
  const Model slow{"slow", milliseconds(1), 10e6};
  EXPECT_EQ(adapt(slow).last_most, RequestWindow::kLeast + RequestWindow::kLeast / 4) << "a try of more";
  EXPECT_EQ(adapt(slow, 4).largest, 4u);
}

TEST(RequestWindow, does_not_change_where_not_all_requests_are_used) {
  const Model far{"far", milliseconds(10)};
  RequestWindow window;
  window.set_most(kMost);
  simulate(
      far, seconds(1), seconds(5), [] { return std::size_t{20}; },
      [&](Clock::Time now, RequestWindow::End end) {
        end.all_used = false;
        window.ended(now, end);
      });
  EXPECT_EQ(window.size(), RequestWindow::kStart);
}

TEST(RequestWindow, is_halved_once_for_all_requests_that_a_server_refuses_together) {
  RequestWindow window;
  window.set_most(kMost);
  const auto refuse = [&](int began_ms, int ended_ms) {
    window.ended(milliseconds(ended_ms), {How::refused, 0, milliseconds(began_ms), true});
  };
  for (int i = 0; i < 32; ++i) refuse(0, 10 + i);
  EXPECT_EQ(window.size(), 16u);
  refuse(5, 50);
  EXPECT_EQ(window.size(), 16u);
  refuse(20, 60);
  EXPECT_EQ(window.size(), 8u);
  refuse(70, 80);
  EXPECT_EQ(window.size(), 8u);
}

TEST(RequestWindow, is_halved_by_the_second_stall) {
  RequestWindow window;
  window.set_most(kMost);
  window.ended(seconds(20), {How::stalled, 0, seconds(0), true});
  EXPECT_EQ(window.size(), 32u);
  window.ended(seconds(30), {How::stalled, 0, seconds(10), true});
  EXPECT_EQ(window.size(), 16u);
  window.ended(seconds(31), {How::stalled, 0, seconds(11), true});
  window.ended(seconds(32), {How::stalled, 0, seconds(12), true});
  EXPECT_EQ(window.size(), 16u) << "they began before it was halved";
}

TEST(RequestWindow, recovers_within_5_s_after_refusals) {
  const Model far{"far", milliseconds(10), 0, 0.2e-3};
  RequestWindow window;
  window.set_most(kMost);
  const Rates rates = simulate(
      far, seconds(15), seconds(20), [&] { return window.size(); },
      [&](Clock::Time now, RequestWindow::End end) {
        if (now < seconds(10)) end.how = How::refused;
        window.ended(now, end);
        if (now < seconds(10)) {
          EXPECT_LE(window.size(), RequestWindow::kStart);
        }
      });
  EXPECT_GE(rates.after_s, 0.9 * best_fixed(far).rate);
}

TEST(RequestWindow, follows_a_line_that_becomes_slower_and_faster) {
  RequestWindow window;
  window.set_most(kMost);
  auto run = [&, offset = Clock::Time(0)](const Model& model) mutable {
    const Rates rates = simulate(
        model, seconds(15), seconds(20), [&] { return window.size(); },
        [&](Clock::Time now, RequestWindow::End end) {
          end.began += offset;
          window.ended(offset + now, end);
        });
    offset += seconds(21);
    return rates.after_s / best_fixed(model).rate;
  };
  const Model fast{"fast", milliseconds(50), 1.25e9}, slow{"slow", milliseconds(50), 20e6};
  EXPECT_GE(run(fast), 0.9);
  const std::size_t many = window.size();
  EXPECT_GE(run(slow), 0.9);
  EXPECT_LT(window.size(), many / 2);
  EXPECT_GE(run(fast), 0.9);
}

}  // namespace
}  // namespace damacy::http
