// Totals over all runs, in a text file with one line per subject. Knows no frames.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace damacy::bench {

class Ledger {
 public:
  struct Entry {
    std::uint64_t frames = 0;     // frames passed to the decoder
    std::uint64_t on_device = 0;  // streams of these that the scan accepted, so that kernels decoded them
    std::uint64_t checked = 0;    // streams compared with the reference decoder
    std::uint64_t batches = 0;    // the next run continues after these
    std::uint64_t findings = 0;   // wrong bytes, different statuses, bytes out of bounds
  };

  explicit Ledger(std::string file);  // empty: totals are not stored
  Entry& of(const std::string& subject) { return entries_[subject]; }
  void save() const;

 private:
  std::string file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace damacy::bench
