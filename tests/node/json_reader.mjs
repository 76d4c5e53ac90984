// Reads base64 lines, gives back what JSON.parse makes of each: a JSON line, or an empty one where it refuses.
import readline from "node:readline";

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let out = "";
  try {
    out = JSON.stringify(JSON.parse(Buffer.from(line, "base64").toString("utf8")));
  } catch {
    // not JSON for Node
  }
  process.stdout.write(out + "\n");
});
