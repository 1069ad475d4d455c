// Streams crops of one zarr array, evenly spaced along its first axis, and prints the sum of their elements.
//   stream_crops URI [EXTENT] [BATCHES]
#include <stdio.h>
#include <stdlib.h>

#include <damacy/c.h>

enum { MAX_RANK = 32, BATCH_SIZE = 4 };

static void check(int status) {
  if (status == DAMACY_OK) return;
  fprintf(stderr, "%s\n", damacy_error_text());  // what happened, where and with which numbers
  exit(1);
}

// Adds `count` crops of at most `extent` elements on each axis.
static void add_crops(damacy_samples* samples, const char* uri, int64_t extent, int count) {
  damacy_array* array;
  int rank;
  int64_t shape[MAX_RANK], start[MAX_RANK] = {0}, stop[MAX_RANK];
  check(damacy_array_open(uri, &array));
  check(damacy_array_rank(array, &rank));
  check(damacy_array_shape(array, shape));
  damacy_array_destroy(array);
  for (int axis = 0; axis < rank; axis++) stop[axis] = extent < shape[axis] ? extent : shape[axis];
  const int64_t length = stop[0], places = shape[0] - length + 1;
  for (int i = 0; i < count; i++) {
    start[0] = i % places;
    stop[0] = start[0] + length;
    check(damacy_samples_add(samples, uri, rank, start, stop, NULL));
  }
}

// The sum of all elements of a batch on the host.
static double sum_of(const damacy_batch* batch) {
  int rank;
  int64_t shape[MAX_RANK + 1], count = 1;
  const void* data;
  check(damacy_batch_rank(batch, NULL, &rank));
  check(damacy_batch_shape(batch, NULL, shape));
  check(damacy_batch_data(batch, NULL, &data));
  for (int axis = 0; axis < rank; axis++) count *= shape[axis];
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += ((const float*)data)[i];
  return sum;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s URI [EXTENT] [BATCHES]\n", argv[0]);
    return 2;
  }
  const int64_t extent = argc > 2 ? atoll(argv[2]) : 64;
  const int batches = argc > 3 ? atoi(argv[3]) : 8;

  damacy_samples* samples;
  check(damacy_samples_create(&samples));
  add_crops(samples, argv[1], extent, batches * BATCH_SIZE);

  damacy_options* options;
  check(damacy_options_create(&options));
  check(damacy_options_set_integer(options, "batch_size", BATCH_SIZE));
  check(damacy_options_set_text(options, "device", "cpu"));
  check(damacy_options_set_text(options, "dtype", "float32"));

  damacy_pipeline* pipeline;
  check(damacy_pipeline_create(options, &pipeline));
  check(damacy_pipeline_push(pipeline, samples));
  double sum = 0;
  for (int i = 0; i < batches; i++) {
    damacy_batch* batch;
    check(damacy_pipeline_pop(pipeline, /*timeout_s=*/-1, &batch));
    sum += sum_of(batch);
    damacy_batch_destroy(batch);  // its memory is used again
  }
  printf("%d batches of %d crops, sum %.1f\n", batches, BATCH_SIZE, sum);

  damacy_pipeline_destroy(pipeline);
  damacy_options_destroy(options);
  damacy_samples_destroy(samples);
  return 0;
}
