#include "sweeps/scenario.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "damacy/codec/detail/test_encoders.h"
#include "damacy/core/error.h"
#include "damacy/core/text.h"
#include "damacy/pipeline/dlpack_abi.h"
#include "sweeps/failing_new.h"

namespace damacy::testing {
namespace {

using namespace codec_test;

constexpr std::size_t kGuard = 4096;  // whole pages, so that what lies between stays aligned
constexpr std::byte kGuardByte{0xc5};
constexpr std::int64_t kRows = 40, kColumns = 64, kChunkRows = 8, kChunkColumns = 16;
constexpr std::int64_t kBoxRows = 5, kBoxColumns = 20;
constexpr int kPopsAtMost = 400;

std::vector<std::byte> chunk_bytes(std::int64_t first_row, std::int64_t first_column) {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < kChunkRows; ++i)
    for (std::int64_t j = 0; j < kChunkColumns; ++j)
      append_le(bytes, static_cast<std::uint64_t>((first_row + i) * kColumns + first_column + j), 2);
  return bytes;
}

std::string document(std::string_view chunk, std::string_view codecs) {
  return text(R"({"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": 7, "shape": [)", kRows,
              ", ", kColumns, R"(], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": )", chunk,
              R"(}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}, "codecs": )",
              codecs, "}");
}

constexpr std::string_view kBytes = R"({"name": "bytes", "configuration": {"endian": "little"}})";

void put_zstd(MemoryStore& store) {
  store.put("zarr.json", document("[8, 16]", text("[", kBytes, R"(, {"name": "zstd"}])")));
  for (std::int64_t i = 0; i < kRows / kChunkRows; ++i)
    for (std::int64_t j = 0; j < kColumns / kChunkColumns; ++j)
      store.put(text("c.", i, ".", j), zstd_packed(chunk_bytes(i * kChunkRows, j * kChunkColumns)));
}

void put_shards(MemoryStore& store) {
  store.put("zarr.json",
            document("[16, 32]",
                     text(R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": [8, 16], "codecs": [)",
                          kBytes, R"(], "index_codecs": [)", kBytes, R"(, {"name": "crc32c"}]}}])")));
  for (std::int64_t i = 0; i < (kRows + 15) / 16; ++i)
    for (std::int64_t j = 0; j < kColumns / 32; ++j) {
      Bytes shard, index;
      for (std::int64_t c = 0; c < 4; ++c) {
        const Bytes chunk = chunk_bytes(i * 16 + c / 2 * kChunkRows, j * 32 + c % 2 * kChunkColumns);
        append_le(index, shard.size(), 8);
        append_le(index, chunk.size(), 8);
        append(shard, chunk);
      }
      append(shard, with_crc32c(index));
      store.put(text("c.", i, ".", j), shard);
    }
}

// One store for both arrays, told apart by the first part of a key.
class TwoArrays final : public Store {
 public:
  TwoArrays(std::shared_ptr<Store> both, std::string prefix) : both_(std::move(both)), prefix_(std::move(prefix)) {}
  std::string name() const override { return prefix_; }
  std::shared_ptr<Object> open(std::string_view key) override { return both_->open(below(key)); }
  std::optional<Stamp> stamp(std::string_view key) override { return both_->stamp(below(key)); }
  std::vector<Entry> list(std::string_view prefix) override { return both_->list(below(prefix)); }

 private:
  std::string below(std::string_view key) const { return key.empty() ? prefix_ : text(prefix_, "/", key); }
  std::shared_ptr<Store> both_;
  std::string prefix_;
};

Sample sample_at(std::int64_t n, std::string_view array) {
  const std::int64_t row = n % (kRows - kBoxRows), column = n * 7 % (kColumns - kBoxColumns);
  return {std::string(array), {{row, row + kBoxRows}, {column, column + kBoxColumns}}};
}

// Drives a pipeline and holds what it does against the laws.
class Driver {
 public:
  Driver(const World& world, Config config, Outcome& outcome) : outcome_(outcome), config_(std::move(config)) {
    Surroundings around;
    {
      const Spared spared;
      around.alloc = world.alloc;
      around.device = world.device;
      around.device_from_bytes = 0;
      around.make_store = [store = world.store](const std::string& path) {
        const Spared inner;
        return std::make_shared<TwoArrays>(store, path);
      };
    }
    try {
      pipeline_.emplace(config_, std::move(around));
    } catch (const Error& error) {
      const Spared spared;
      told(error);
    }
  }
  ~Driver() {
    const auto start = std::chrono::steady_clock::now();
    if (pipeline_) pipeline_->close();
    const Spared spared;
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5)) wrong("close took longer than 5 s");
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  bool alive() const { return pipeline_.has_value(); }
  Pipeline& pipeline() { return *pipeline_; }

  void push(std::int64_t count, std::string_view array = "a.zarr") {
    if (!alive()) return;
    std::vector<Sample> samples;
    {
      const Spared spared;
      for (std::int64_t i = 0; i < count; ++i) {
        samples.push_back(sample_at(static_cast<std::int64_t>(pushed_.size()), array));
        pushed_.push_back(samples.back());
      }
    }
    attempt([&] { pipeline_->push(std::move(samples)); });
  }
  void flush() {
    if (alive()) attempt([&] { pipeline_->flush(); });
  }
  // False: nothing to pop now.
  bool pop(bool hold = false) {
    if (!alive()) return false;
    if (++pops_ > kPopsAtMost) {
      wrong("pop never ends");
      return false;
    }
    bool more = true;
    attempt([&] {
      try {
        Batch batch = pipeline_->pop(std::chrono::seconds(20));
        const Spared spared;
        check(batch);
        if (hold) held_.push_back(std::move(batch));
      } catch (const Error& error) {
        const Spared spared;
        if (error.kind() == ErrorKind::pop_timeout) wrong("a pop hangs");
        if (error.status() != Status::again) throw;
        more = false;
      }
    });
    return more;
  }
  void drain() {
    while (pop() && outcome_.wrong.empty()) {
    }
  }
  void release_held() {
    const Spared spared;
    held_.clear();
  }
  // Everything accepted came out, or was told.
  void expect_complete() {
    if (!alive()) return;
    flush();  // once more: one that failed may be tried again
    flush();
    drain();
    const Spared spared;
    seen_ += pipeline_->stats().samples_skipped;
    if (!outcome_.refused && seen_ != static_cast<std::int64_t>(pushed_.size()))
      wrong(text(seen_, " of ", pushed_.size(), " samples came out, and no call failed"));
    if (config_.on_error != OnError::skip && seen_ != next_index_)
      wrong(text("stream indices go to ", next_index_, ", ", seen_, " samples were told"));
  }
  void wrong(std::string what) {
    if (outcome_.wrong.empty()) outcome_.wrong = std::move(what);
  }

 private:
  template <class Call>
  void attempt(Call call) {
    try {
      call();
    } catch (const Error& error) {
      const Spared spared;
      told(error);
    } catch (const std::exception& error) {
      const Spared spared;
      wrong(text("not one of our errors: ", std::string_view(error.what())));
    }
  }
  void told(const Error& error) {
    if (!error.where().lost.empty()) {
      seen_ += static_cast<std::int64_t>(error.where().lost.size());
      for (const auto index : error.where().lost) step_to(index);
    } else {
      outcome_.refused = true;
    }
    if (error.message().starts_with("internal")) wrong(error.what());
  }
  void step_to(std::int64_t index) {
    if (index < next_index_) wrong(text("stream index ", index, " twice or late"));
    next_index_ = index + 1;
  }
  void check(const Batch& batch) {
    if (batch.batch_id() <= last_id_) wrong("batch ids do not ascend");
    last_id_ = batch.batch_id();
    const auto bytes = batch.bytes();
    for (std::size_t row = 0; row < batch.sample_indices().size(); ++row) {
      step_to(batch.sample_indices()[row]);
      ++seen_;
      check_row(bytes.subspan(row * kBoxRows * kBoxColumns * 2, kBoxRows * kBoxColumns * 2), batch.valid()[row]);
    }
    outcome_.delivered += static_cast<std::int64_t>(batch.sample_indices().size());
    std::memset(const_cast<std::byte*>(bytes.data()), 0xa5, bytes.size());  // poison for the next use of the slot
  }
  // Rows come in the order of pushes; some may be left out.
  void check_row(std::span<const std::byte> row, bool valid) {
    std::vector<std::uint16_t> values(kBoxRows * kBoxColumns);
    std::memcpy(values.data(), row.data(), row.size());
    if (!valid) {
      if (std::any_of(values.begin(), values.end(), [](auto v) { return v != 7; })) wrong("a filled row is not fill");
      return;
    }
    for (; next_pushed_ < pushed_.size(); ++next_pushed_)
      if (equals(values, pushed_[next_pushed_])) {
        ++next_pushed_;
        return;
      }
    wrong(text("a row with other bytes than any sample that was to come; its first is ", values[0]));
  }
  static bool equals(const std::vector<std::uint16_t>& values, const Sample& sample) {
    for (std::int64_t i = 0; i < kBoxRows; ++i)
      for (std::int64_t j = 0; j < kBoxColumns; ++j)
        if (values[static_cast<std::size_t>(i * kBoxColumns + j)] !=
            (sample.aabb[0].first + i) * kColumns + sample.aabb[1].first + j)
          return false;
    return true;
  }

  Outcome& outcome_;
  Config config_;
  std::optional<Pipeline> pipeline_;
  std::vector<Sample> pushed_;
  std::vector<Batch> held_;
  std::size_t next_pushed_ = 0;
  std::int64_t seen_ = 0, next_index_ = 0, last_id_ = -1;
  int pops_ = 0;
};

Config small(std::int64_t batch_size, std::int64_t n_batches = 2, OnError on_error = OnError::raise) {
  Config config;
  config.batch_size = batch_size;
  config.n_batches = n_batches;
  config.on_error = on_error;
  config.dtype = Dtype::u16;
  config.host_buffer_bytes = config.device_buffer_bytes = 256 << 10;
  config.n_io_threads = 2;
  config.device.kind = DeviceChoice::Kind::cpu;
  return config;
}

void stream_all(const World& world, Outcome& outcome, const Config& config, std::string_view array,
                std::int64_t count) {
  Driver driver(world, config, outcome);
  driver.push(count, array);
  driver.flush();
  driver.drain();
  driver.expect_complete();
}

std::vector<Scenario> make_scenarios() {
  std::vector<Scenario> all;
  const auto add = [&](std::string name, auto run) { all.push_back({std::move(name), run}); };
  add("construct and close", [](const World& w, Outcome& o) { Driver driver(w, small(2), o); });
  add("push and close", [](const World& w, Outcome& o) { Driver(w, small(2), o).push(12); });
  add("zstd chunks", [](const World& w, Outcome& o) { stream_all(w, o, small(2), "a.zarr", 12); });
  add("shards", [](const World& w, Outcome& o) { stream_all(w, o, small(3), "s.zarr", 12); });
  add("a short batch", [](const World& w, Outcome& o) { stream_all(w, o, small(5), "s.zarr", 12); });
  add("one slot", [](const World& w, Outcome& o) { stream_all(w, o, small(2, 1), "a.zarr", 8); });
  add("skip", [](const World& w, Outcome& o) { stream_all(w, o, small(2, 2, OnError::skip), "a.zarr", 10); });
  add("fill", [](const World& w, Outcome& o) { stream_all(w, o, small(2, 2, OnError::fill), "s.zarr", 10); });
  add("both arrays, turn by turn", [](const World& w, Outcome& o) {
    Driver driver(w, small(3), o);
    for (int i = 0; i < 4; ++i) driver.push(3, i % 2 == 0 ? "a.zarr" : "s.zarr");
    driver.drain();
    driver.expect_complete();
  });
  add("push, flush and pop in turn", [](const World& w, Outcome& o) {
    Driver driver(w, small(2), o);
    for (int i = 0; i < 3; ++i) {
      driver.push(3);
      driver.flush();
      driver.pop();
    }
    driver.drain();
    driver.expect_complete();
  });
  add("held batches", [](const World& w, Outcome& o) {
    Driver driver(w, small(2, 3), o);
    driver.push(14);
    for (int i = 0; i < 4; ++i) driver.pop(/*hold=*/true);
    driver.release_held();
    driver.drain();
    driver.expect_complete();
  });
  add("close with batches held and in production", [](const World& w, Outcome& o) {
    Driver driver(w, small(2, 3), o);
    driver.push(14, "s.zarr");
    driver.pop(true);
    if (driver.alive()) driver.pipeline().close();
    driver.release_held();
  });
  add("tensors", [](const World& w, Outcome& o) {
    Driver driver(w, small(2, 2), o);
    driver.push(4);
    if (!driver.alive()) return;
    try {
      Batch batch = driver.pipeline().pop(std::chrono::seconds(20));
      auto* tensor = batch.to_dlpack();
      batch.release();
      tensor->deleter(tensor);
    } catch (const Error&) {
    }
  });
  add("a refused sample", [](const World& w, Outcome& o) {
    Driver driver(w, small(2), o);
    driver.push(2);
    if (driver.alive()) {
      try {
        std::vector<Sample> beyond;
        {
          const Spared spared;
          beyond.push_back({"a.zarr", {{0, 5}, {60, 80}}});
        }
        driver.pipeline().push(std::move(beyond));
      } catch (const Error&) {
        o.refused = true;
      }
    }
    driver.push(4);
    driver.drain();
    driver.expect_complete();
  });
  add("an array that is not there", [](const World& w, Outcome& o) {
    Driver driver(w, small(2), o);
    driver.push(3, "a.zarr");
    driver.push(1, "none.zarr");
    driver.drain();
    driver.expect_complete();
  });
  return all;
}

}  // namespace

std::byte* GuardedAlloc::take(std::size_t bytes) {
  std::byte* const memory = pages_.take(bytes + 2 * kGuard);
  std::memset(memory, static_cast<int>(kGuardByte), kGuard);
  std::memset(memory + kGuard + bytes, static_cast<int>(kGuardByte), kGuard);
  std::memset(memory + kGuard, static_cast<int>(0x51 + 0x22 * uses_++ % 5), bytes);
  held_ += bytes;
  return memory + kGuard;
}

void GuardedAlloc::give(std::byte* memory, std::size_t bytes) noexcept {
  const auto intact = [](std::span<const std::byte> guard) {
    return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuardByte; });
  };
  if (!intact({memory - kGuard, kGuard}) || !intact({memory + bytes, kGuard})) ++broken_;
  held_ -= bytes;
  pages_.give(memory - kGuard, bytes + 2 * kGuard);
}

std::shared_ptr<MemoryStore> make_arrays() {
  const auto both = std::make_shared<MemoryStore>("both");
  const auto copy = [&](const char* name, void (*put)(MemoryStore&)) {
    MemoryStore one;
    put(one);
    for (const Entry& entry : one.list("")) {
      const auto object = one.open(entry.name);
      Bytes bytes(object->stamp().size);
      object->read_exact(0, bytes);
      both->put(text(name, "/", entry.name), bytes);
    }
  };
  copy("a.zarr", put_zstd);
  copy("s.zarr", put_shards);
  return both;
}

std::shared_ptr<Store> store_below(std::shared_ptr<Store> both, std::string path) {
  return std::make_shared<TwoArrays>(std::move(both), std::move(path));
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = make_scenarios();
  return all;
}

Footprint footprint() {
  static const bool warm = [] {  // a sanitizer has a thread of its own from the first one on
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(warm);
  const auto count = [](const char* folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  return {count("/proc/self/fd"), count("/proc/self/task")};
}

}  // namespace damacy::testing
