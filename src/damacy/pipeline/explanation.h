// What limits a stream of batches, and which setting would help. Values only; explain() makes them.
#pragma once

#include <string>
#include <vector>

namespace damacy {

// One stage that batches pass through.
struct StageLoad {
  std::string name;        // plan, read, decode, place, bus
  double busy = 0;         // of the time that its lanes (threads, or the device's one) had, 0 to 1
  double bytes_per_s = 0;  // of finished batches, if this stage were busy all the time: its measured ceiling
};

struct Explanation {
  std::string binds;           // a stage's name; "consumer", "latency", or "nothing yet"
  double share = 0;            // of the binding ceiling that was reached, 0 to 1
  double bytes_per_s = 0;      // of finished batches
  double consumer_waited = 0;  // of the time, 0 to 1
  std::vector<StageLoad> stages;
  // Of the encoded bytes that batches wanted, the share that earlier batches had wanted too, 0 to 1; and the chunks
  // that were wanted so far, each once. Estimates.
  double wanted_again = 0;
  double encoded_bytes = 0, decoded_bytes = 0;
  std::string advice;  // the setting that would help; or why none would
  std::string text;    // all of it, for people
};

}  // namespace damacy
