// Graphile Worker, measured: a queue on Postgres for Node, with LISTEN and NOTIFY.
//
// Settings: as shipped a worker runs one job at a time. Tuned is what the documentation measures its
// best rate with: 24 at once, a local queue that fetches many jobs together, and completions in
// batches. Bulk: `addJobs`. Locks of a worker that has died are given up after four hours.

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");

const modules = path.join(__dirname, "..", "..", ".cache", "peers", "node_modules");
const { Logger, makeWorkerUtils, run } = require(path.join(modules, "graphile-worker"));
const { Pool } = require(path.join(modules, "pg"));

const TUNED = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const PRESETS = { shipped: {}, twenty: { concurrentJobs: 20 }, tuned: TUNED };
// A lower number is worked on first.
const [HOT, COLD] = [0, 10];
const BATCH = 5000;

const now = () => Number(process.hrtime.bigint());
const say = (said) => fs.writeSync(1, JSON.stringify(said) + "\n");
const rest = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function client(url) {
  const utils = await makeWorkerUtils({ connectionString: url, logger: quiet() });
  await utils.migrate();
  const pool = new Pool({ connectionString: url, max: 1 });
  const spec = (kind) => ({ priority: kind === "slow" ? COLD : HOT });
  let next = 0;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { do: asked, kind = "", count = 1 } = JSON.parse(line);
    const first = next;
    next += count;
    let left = false;
    const began = now();
    if (asked === "setup") {
      await pool.query("TRUNCATE graphile_worker._private_jobs");
    } else if (asked === "submit") {
      for (let number = first; number < next; number++) {
        await utils.addJob("work", { kind, number }, spec(kind));
      }
    } else if (asked === "submit_many") {
      for (let from = first; from < next; from += BATCH) {
        const jobs = [];
        for (let number = from; number < Math.min(from + BATCH, next); number++) {
          jobs.push({ identifier: "work", payload: { kind, number }, ...spec(kind) });
        }
        await utils.addJobs(jobs);
      }
    } else {
      const found = await pool.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1");
      left = found.rows.length > 0;
    }
    say({ began, ended: now(), first, left });
  }
  await utils.release();
  await pool.end();
}

async function work(url, settings) {
  const expected = Number(process.env.BENCH_EXPECT || "0");
  const hold = process.env.BENCH_HOLD || "";
  let ran = 0;
  const task = async ({ kind, number }) => {
    if (kind === "nothing") {
      ran += 1;
      if (ran === 1) say({ first: now() });
      if (ran === expected) say({ last: now() });
    } else if (kind === "slow") {
      await rest(0.02);
    } else if (kind === "probe" || kind === "held") {
      say({ begun: number, at: now() });
    }
    while (kind === "held" && fs.existsSync(hold)) await rest(0.02);
  };
  const worker = { connectionString: url, ...PRESETS[settings] };
  if (settings !== "shipped") worker.logger = quiet();
  const runner = await run({ preset: { worker }, taskList: { work: task } });
  await runner.promise;
}

function quiet() {
  return new Logger(() => () => {});
}

const [role, url, settings] = process.argv.slice(2);
(role === "client" ? client(url) : work(url, settings)).catch((error) => {
  console.error(error);
  process.exit(1);
});
