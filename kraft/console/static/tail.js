// The live tail: rows of records as text, never as markup. Bounded in rows, paused by a button, resumed where it was.
"use strict";
(() => {
  const tail = document.getElementById("tail");
  if (!tail) return;
  const ROWS_MAX = 200;
  const RETRY_MS = 3000;
  const rows = document.getElementById("rows");
  const said = document.getElementById("said");
  const pause = document.getElementById("pause");
  const counts = { shown: 0, looked: 0, skipped: 0 };
  let source = null;
  let at = "";
  let retry = 0;
  let note = "";

  // Characters that are not seen, or turn the text around them, as escapes.
  const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g;
  const seen = (text) => text.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const number = (value) => value.toLocaleString("en");

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = seen(text);
    return made;
  }

  function cell(value) {
    if (value.format === "null" || value.text === "") return element("span", value.format === "null" ? "null" : "empty", "note");
    const made = element("code", value.text, "text");
    if (value.cut) made.append(element("span", " …", "note"));
    return made;
  }

  function row(record) {
    const made = document.createElement("tr");
    made.append(element("td", record.time.replace("T", " ").replace("Z", ""), "when"), element("td", String(record.partition), "n"));
    const link = element("a", number(record.offset));
    link.href = `${tail.dataset.records}/${Number(record.partition)}/${Number(record.offset)}`;
    const where = element("td", undefined, "n");
    where.append(link);
    made.append(where);
    if (record.problem) {
      const problem = element("td", record.problem, "bad");
      problem.colSpan = 3;
      made.append(problem);
      return made;
    }
    const key = element("td"), value = element("td"), headers = element("td");
    if (record.key && !record.is_marker) key.append(cell(record.key));
    for (const tag of record.tags) value.append(element("span", tag, "tag"), " ");
    if (record.value && !record.is_marker && !record.tags.includes("tombstone")) value.append(cell(record.value));
    for (const header of record.headers) {
      const one = element("span", undefined, "header");
      one.append(element("span", `${header.name}: `, "note"), cell(header.value));
      headers.append(one);
    }
    made.append(key, value, headers);
    return made;
  }

  function say(state) {
    const skipped = counts.skipped ? `, ${number(counts.skipped)} skipped because they came too fast` : "";
    said.textContent = `${state}: ${number(counts.shown)} records shown of ${number(counts.looked)} looked at${skipped}.${note ? ` ${note}` : ""}`;
  }

  function turn(event) {
    const found = JSON.parse(event.data);
    at = found.at;
    counts.shown += found.rows.length;
    counts.looked += found.looked_at;
    counts.skipped += found.skipped;
    note = found.notes.join(" ");
    // The newest is on top.
    for (const record of found.rows) rows.prepend(row(record));
    while (rows.childElementCount > ROWS_MAX) rows.lastElementChild.remove();
    say("Live");
    rest();
  }

  function stop(text) {
    close();
    pause.textContent = "Resume";
    pause.hidden = false;
    said.textContent = text;
  }

  function close() {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  }

  function open() {
    close();
    const address = new URL(tail.dataset.stream, location.href);
    if (at) address.searchParams.set("at", at);
    source = new EventSource(address);
    source.addEventListener("turn", turn);
    source.addEventListener("problem", (event) => { note = JSON.parse(event.data); say("Waiting for the cluster"); });
    source.addEventListener("refused", (event) => stop(JSON.parse(event.data)));
    // The topic is gone: an offset of it says nothing about another one of its name.
    source.addEventListener("ended", (event) => { stop(JSON.parse(event.data)); at = ""; });
    source.addEventListener("over", (event) => stop(JSON.parse(event.data)));
    source.onerror = () => {
      // The browser would begin at the end again: it is opened anew where it was.
      close();
      say("Not connected, trying again");
      retry = setTimeout(open, RETRY_MS);
    };
    pause.textContent = "Pause";
    pause.hidden = false;
    // It begins at the end that its first turn tells: what is written before that is not shown.
    say("Connecting");
  }

  pause.addEventListener("click", () => {
    if (source || retry && pause.textContent === "Pause") {
      close();
      pause.textContent = "Resume";
      say("Paused");
    } else {
      open();
    }
  });
  // A tab that nobody looks at costs nothing, once the place is known from which it goes on when somebody does.
  function rest() {
    if (document.hidden && source && at) { close(); retry = -1; } else if (!document.hidden && retry === -1) { retry = 0; open(); }
  }
  document.addEventListener("visibilitychange", rest);
  open();
})();
