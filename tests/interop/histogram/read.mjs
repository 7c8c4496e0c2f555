// Reads the histograms of a result of `mcplane bench` with another implementation of HdrHistogram and
// prints what it finds in each: `node read.mjs RESULT.json`.
import { readFileSync } from "node:fs";
import { decodeFromCompressedBase64 } from "hdr-histogram-js";

const { results } = JSON.parse(readFileSync(process.argv[2], "utf8")).runs[0];
const figures = (encoded) => {
  const histogram = decodeFromCompressedBase64(encoded);
  const at = (percent) => histogram.getValueAtPercentile(percent);
  return {
    count: histogram.totalCount,
    p50_ns: at(50),
    p90_ns: at(90),
    p99_ns: at(99),
    max_ns: histogram.maxValue,
  };
};
const seconds = results.seconds.map((second) => figures(second.latency_histogram));
console.log(JSON.stringify({ whole: figures(results.latency_histogram), seconds }));
