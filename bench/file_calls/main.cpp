// What one call of CuFile::pread costs from C++: COUNT reads of BYTES each, all started before the first is waited for.
// Into memory of a GPU if there is one, else of the host. Prints a JSON object of the rates of each round, in GB/s.
//   file_calls FILE COUNT BYTES THREADS ROUNDS
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <damacy/file.h>

namespace {

struct Arguments {
  const char* path;
  std::uint64_t count, bytes, threads, rounds;
};

struct Seconds {
  double submit, round;
};

Seconds seconds_of_round(damacy::CuFile& file, const damacy::FileMemory& memory, const Arguments& wanted) {
  std::vector<damacy::IOFuture> futures;
  futures.reserve(wanted.count);
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < wanted.count; ++i)
    futures.push_back(file.pread(damacy::part_of(memory, i * wanted.bytes, wanted.bytes), i * wanted.bytes));
  const std::chrono::duration<double> submit = std::chrono::steady_clock::now() - began;
  std::uint64_t got = 0;
  for (const damacy::IOFuture& future : futures) got += future.get();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (got != wanted.count * wanted.bytes) throw std::runtime_error("the file is too short");
  return {submit.count(), took.count()};
}

void measure(const Arguments& wanted) {
  damacy::change_io_settings([&](damacy::IoSettings& settings) { settings.use_threads(wanted.threads); });
  damacy::make_primary_current(0);  // of a GPU, if there is one
  const damacy::BoundDevice bound = damacy::bind_device({});
  damacy::Device& device = *bound.device;
  const std::uint64_t size = wanted.count * wanted.bytes;
  const damacy::HostBuffer buffer(device.device_memory(), size);
  const damacy::FileMemory memory =
      device.is_host() ? damacy::host_memory(buffer.bytes()) : damacy::device_memory(buffer.data(), size);
  damacy::CuFile file(wanted.path);
  std::string rates;
  double submit = 0;
  for (std::uint64_t round = 0; round <= wanted.rounds; ++round) {
    const Seconds took = seconds_of_round(file, memory, wanted);
    if (round == 0) continue;  // the first warms up
    submit += took.submit / static_cast<double>(wanted.rounds * wanted.count);
    char rate[32];
    std::snprintf(rate, sizeof rate, "%s%.2f", rates.empty() ? "" : ", ", static_cast<double>(size) / took.round / 1e9);
    rates += rate;
  }
  const auto& counters = file.counters();
  std::printf("{\"gpu\": \"%s\", \"copies\": %llu, \"copy_batches\": %llu, \"submit_us\": %.2f, \"gb_per_s\": [%s]}\n",
              device.name().c_str(), static_cast<unsigned long long>(counters.copies.load()),
              static_cast<unsigned long long>(counters.copy_batches.load()), submit * 1e6, rates.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s FILE COUNT BYTES THREADS ROUNDS\n", argv[0]);
    return 2;
  }
  const auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 10); };
  try {
    measure({argv[1], number(2), number(3), number(4), number(5)});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
