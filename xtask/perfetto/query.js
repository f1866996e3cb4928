// Loads a trace into Perfetto's trace processor, and prints what queries return: a line of JSON for
// each query, with a list for each row.
//
//     node query.js FOLDER TRACE QUERY...
//
// FOLDER has the web worker of Perfetto's user interface (engine_bundle.js), which runs the
// processor as WebAssembly. It speaks the protocol of Perfetto's trace_processor.proto
// (TraceProcessorRpcStream) on a message port. An error of the processor is status 1.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const node = process;
const [folder, trace, ...queries] = node.argv.slice(2);

// Of TraceProcessorRpc: fields, and methods.
const FIELD = {
  message: 1,
  method: 2,
  fatal: 5,
  data: 101,
  query: 103,
  appended: 201,
  result: 203,
};
const METHOD = { append: 1, finalize: 2, query: 3 };
// Of QueryResult.CellsBatch: fields, and kinds of cells.
const BATCH = { kinds: 1, integers: 2, floats: 3, texts: 5 };
const CELL = { none: 1, integer: 2, float: 3, text: 4 };

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) {
    bytes.push((number % 128) | 128);
  }
  return Buffer.from([...bytes, number]);
}

function field(number, bytes) {
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

// Reads one number at `place.at`, as two's complement.
function number(bytes, place) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[place.at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) {
      return Number(BigInt.asIntN(64, value));
    }
  }
}

// The fields of a message, as [number, value].
function* fields(bytes) {
  const place = { at: 0 };
  while (place.at < bytes.length) {
    const key = number(bytes, place);
    const wire = key & 7;
    if (wire === 0) {
      yield [key >> 3, number(bytes, place)];
      continue;
    }
    const length = wire === 1 ? 8 : number(bytes, place);
    yield [key >> 3, bytes.subarray(place.at, (place.at += length))];
  }
}

function numbers(bytes) {
  const all = [];
  for (const place = { at: 0 }; place.at < bytes.length; ) {
    all.push(number(bytes, place));
  }
  return all;
}

function text(bytes) {
  return Buffer.from(bytes).toString();
}

// The cells of a batch.
function cells(bytes) {
  const batch = new Map(fields(bytes));
  const packed = (name) => batch.get(BATCH[name]) ?? new Uint8Array();
  const floats = Buffer.from(packed("floats"));
  const values = {
    [CELL.integer]: numbers(packed("integers")),
    [CELL.float]: Array.from({ length: floats.length / 8 }, (_, at) => floats.readDoubleLE(at * 8)),
    [CELL.text]: text(packed("texts")).split("\0"),
  };
  return numbers(packed("kinds")).map((kind) => (kind === CELL.none ? null : values[kind].shift()));
}

// What the processor has answered to the last request.
let answer;

function receive(message) {
  for (const [name, value] of fields(message)) {
    if (name === FIELD.fatal) {
      answer.errors.push(text(value));
    }
    if (name !== FIELD.appended && name !== FIELD.result) {
      continue;
    }
    for (const [inner, part] of fields(value)) {
      if (inner === 2) {
        answer.errors.push(text(part));
      } else if (name === FIELD.result && inner === 1) {
        answer.width++;
      } else if (name === FIELD.result && inner === 3) {
        answer.cells.push(...cells(part));
      }
    }
  }
}

// The only request of the worker, for the code of the processor.
class LocalRequest {
  open(_method, name) {
    this.file = path.join(folder, path.basename(name));
  }
  send() {
    this.response = fs.readFileSync(this.file);
  }
}

const port = {
  postMessage(stream) {
    for (const [, message] of fields(stream)) {
      receive(message);
    }
  },
};

// The worker answers before its handler of messages returns.
function ask(method, ...parts) {
  answer = { errors: [], width: 0, cells: [] };
  const body = Buffer.concat([varint(FIELD.method * 8), varint(method), ...parts]);
  port.onmessage({ data: new Uint8Array(field(FIELD.message, body)) });
  if (answer.errors.length) {
    throw new Error(answer.errors.join("\n"));
  }
  return answer;
}

function begin() {
  // The worker refuses to run in Node.js, and has this around it in a browser.
  delete globalThis.process;
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = {};
  globalThis.location = { href: "worker:///" };
  globalThis.XMLHttpRequest = LocalRequest;
  const script = path.join(folder, "engine_bundle.js");
  vm.runInThisContext(fs.readFileSync(script, "utf8"), { filename: script });
  globalThis.onmessage({ data: port });
}

async function main() {
  begin();
  // The processor is compiled, and is initialised in a microtask.
  await new Promise(setImmediate);
  ask(METHOD.append, field(FIELD.data, fs.readFileSync(trace)));
  ask(METHOD.finalize);
  for (const query of queries) {
    const { width, cells } = ask(METHOD.query, field(FIELD.query, field(1, Buffer.from(query))));
    const rows = Array.from({ length: cells.length / width }, (_, row) =>
      cells.slice(row * width, (row + 1) * width),
    );
    console.log(JSON.stringify(rows));
  }
}

// The message alone: an error of the worker would print its only line.
main().catch((error) => {
  console.error(error.message);
  node.exitCode = 1;
});
