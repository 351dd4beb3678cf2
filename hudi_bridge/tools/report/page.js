"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const ROWS = 25;
  const byId = (id) => document.getElementById(id);

  const element = (name, text, className) => {
    const made = document.createElement(name);
    // Names come from outside: they are set as text, never as markup.
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const count = (number) => number.toLocaleString("en-US");
  const size = (bytes) => {
    if (bytes < 1024) return `${count(bytes)} B`;
    const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = -1;
    let left = bytes;
    do { left /= 1024; unit += 1; } while (left >= 1023.95 && unit + 1 < units.length);
    return `${left.toFixed(1)} ${units[unit]}`;
  };
  const duration = (seconds) => {
    for (const [length, unit] of [[86400, "days"], [3600, "h"], [60, "min"]]) {
      if (seconds >= length) return `${(seconds / length).toFixed(1)} ${unit}`;
    }
    return `${seconds.toFixed(1)} s`;
  };
  const share = (part) => {
    const cell = element("td", undefined, "number");
    const meter = element("meter");
    meter.value = part;
    meter.setAttribute("aria-hidden", "true");
    cell.append(meter, `${(part * 100).toFixed(1)} %`);
    return cell;
  };
  const FORMS = { count, size, duration, ratio: (ratio) => ratio.toFixed(2) };

  /* A table that shows the first rows of those that are searched for, in the order of a column. */
  const pagedTable = (name, noun, rows, textOf, firstCell) => {
    const table = byId(name);
    const search = byId(`${name}-search`);
    const status = byId(`${name}-status`);
    const more = byId(`${name}-more`);
    const heads = [...table.tHead.rows[0].cells];
    const kinds = heads.map((head) => head.dataset.kind);
    const texts = rows.map((row) => textOf(row).toLowerCase());
    let order = rows.map((_, place) => place);
    let found = order;
    let shown = 0;
    let only = null;

    const cellOf = (value, kind) => {
      if (kind === "text") return element("td", value ?? "");
      if (value === null) return element("td", "", "number");
      return kind === "share" ? share(value) : element("td", FORMS[kind](value), "number");
    };
    const showMore = () => {
      const body = table.tBodies[0];
      for (const place of found.slice(shown, shown + ROWS)) {
        const line = element("tr");
        const first = element("th");
        first.scope = "row";
        first.append(firstCell(rows[place]));
        line.append(first, ...kinds.slice(1).map((kind, number) => cellOf(rows[place][number + 1], kind)));
        body.append(line);
      }
      shown = Math.min(found.length, shown + ROWS);
      more.hidden = shown === found.length;
      const all = found.length === rows.length ? "" : ` of ${count(rows.length)}`;
      const part = shown < found.length ? `, the first ${count(shown)} shown` : "";
      status.textContent = `${count(found.length)}${all} ${noun}${part}`;
    };
    const show = () => {
      const words = search.value.toLowerCase().trim();
      found = order.filter((place) => texts[place].includes(words) && (only === null || rows[place][0] === only));
      shown = 0;
      table.tBodies[0].replaceChildren();
      showMore();
    };
    const sortBy = (column) => {
      const head = heads[column];
      const isText = kinds[column] === "text";
      const before = head.getAttribute("aria-sort");
      const rises = before === "none" ? isText : before === "descending";
      heads.forEach((one) => one.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", rises ? "ascending" : "descending");
      const value = (place) => (column === 0 ? texts[place] : rows[place][column]);
      const sign = rises ? 1 : -1;
      order = [...order].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === y) return a - b;
        // What is not known comes last.
        if (x === null || y === null) return x === null ? 1 : -1;
        return sign * (x < y ? -1 : 1);
      });
      show();
    };
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => sortBy(column)));
    search.addEventListener("input", show);
    more.addEventListener("click", showMore);
    show();
    return { limit: (place) => { only = place; show(); } };
  };

  const link = (text, act) => {
    const button = element("button", text, "link");
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  };

  if (byId("slices")) {
    const all = byId("slices-all");
    const slices = pagedTable(
      "slices", "file slices", data.slices,
      (row) => `${data.names[row[0]]}/${row[1]}`,
      (row) => data.names[row[0]],
    );
    const limit = (place) => {
      slices.limit(place);
      all.hidden = place === null;
      byId("slices-search").focus();
    };
    all.addEventListener("click", () => limit(null));
    pagedTable(
      "partitions", "partitions", data.partitions,
      (row) => data.names[row[0]],
      (row) => link(data.names[row[0]], () => limit(row[0])),
    );
  }

  const factList = (facts) => {
    const list = element("dl");
    facts.filter((fact) => fact[1] !== null)
      .forEach(([name, value]) => list.append(element("dt", name), element("dd", value)));
    return list;
  };

  /* A row for each file group that is searched for, of which those in view alone are in the page. */
  const drawGroups = () => {
    const ROW = 44;
    const box = byId("groups");
    const search = byId("history-search");
    const which = byId("history-which");
    const rows = element("div");
    const columns = data.times.length;
    const UNFINISHED = ["later", "pending", "failed"].map((state) => data.states.indexOf(state));
    const CURRENT = data.states.indexOf("current");
    const passes = {
      all: () => true,
      waiting: (slices) => slices.some((one) => one[3]),
      logs: (slices) => slices.some((one) => one[2] === CURRENT && one[5]),
      unfinished: (slices) => slices.some((one) => UNFINISHED.includes(one[2])),
    };
    const labels = data.groups.map(([path, fileId]) => `${data.names[path]} / ${fileId || "?"}`);
    const texts = labels.map((label) => label.toLowerCase());
    let found = [];
    let chosen = null;
    let slice = 0;

    const endOf = (slices, number) => {
      const [start, end, state] = slices[number];
      if (end !== null || UNFINISHED.includes(state)) return end ?? start + 1;
      // While a compaction is planned, a snapshot reads the slices before and after it.
      const next = slices.slice(number + 1).find((one) => !UNFINISHED.includes(one[2]));
      return next === undefined ? columns : next[0];
    };
    const put = (mark, from, to) => {
      mark.style.left = `${(from / columns) * 100}%`;
      mark.style.width = `${(Math.max(to - from, 0) / columns) * 100}%`;
      return mark;
    };
    const described = ([, , slices, problem]) => {
      if (problem !== null) return problem;
      const waiting = slices.filter((one) => one[3]).length;
      return `${count(slices.length)} ${slices.length === 1 ? "slice" : "slices"}`
        + (waiting ? `, ${count(waiting)} waiting for the cleaner` : "");
    };
    const lineOf = (place) => {
      const group = data.groups[found[place]];
      const line = element("div", undefined, "group");
      line.id = `group-${place}`;
      line.setAttribute("role", "option");
      line.setAttribute("aria-selected", String(place === chosen));
      line.style.top = `${place * ROW}px`;
      const label = element("div", undefined, "label");
      label.append(labels[found[place]], element("span", ` ${described(group)}`, "dim"));
      const track = element("div", undefined, "track");
      group[2].forEach((one, number) => {
        const state = `${data.states[one[2]]}${one[3] ? " waits" : ""}${place === chosen && number === slice ? " chosen" : ""}`;
        const bars = [];
        if (one[4] !== null) bars.push(put(element("div", undefined, `bar base ${state}`), one[0], endOf(group[2], number)));
        if (one[5]) bars.push(put(element("div", undefined, `bar logs ${state}`), one[0], endOf(group[2], number)));
        one[9].forEach((time) => bars.push(put(element("div", undefined, `write ${state}`), time, time)));
        bars.forEach((bar) => bar.addEventListener("click", (event) => { event.stopPropagation(); choose(place, number); }));
        track.append(...bars);
      });
      line.append(label, track);
      line.addEventListener("click", () => choose(place, group[2].length - 1));
      return line;
    };
    const draw = () => {
      const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
      const last = Math.min(found.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 4);
      const lines = [];
      for (let place = first; place < last; place += 1) lines.push(lineOf(place));
      rows.replaceChildren(...lines);
    };
    const tell = () => {
      const [path, fileId, slices, problem] = data.groups[found[chosen]];
      const one = slices[slice];
      if (one === undefined) {
        byId("slice").replaceChildren(factList([["partition", data.names[path]], ["problem", problem]]));
        return;
      }
      const [start, end, state, waits, base, logs, logBytes, written, operation, times] = one;
      byId("slice").replaceChildren(factList([
        ["partition", data.names[path]], ["file group", fileId],
        ["slice", `${count(slice + 1)} of ${count(slices.length)}, since ${data.times[start]}`],
        ["state", data.states[state] + (end === null ? "" : ` by ${data.times[end]}`)],
        ["cleaner", waits ? "waits for it" : null],
        ["base file", base === null ? "none" : size(base)],
        ["logs", logs ? `${count(logs)} ${logs === 1 ? "file" : "files"}, ${size(logBytes)}` : "none"],
        ["newest log", times.length ? data.times[times[times.length - 1]] : null],
        ["rows written", written === null ? null : count(written)], ["operation", operation],
      ]));
    };
    const choose = (place, number) => {
      chosen = place;
      slice = Math.max(0, Math.min(number, data.groups[found[place]][2].length - 1));
      const top = place * ROW;
      if (top < box.scrollTop) box.scrollTop = top;
      if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
      draw();
      box.setAttribute("aria-activedescendant", `group-${place}`);
      tell();
    };
    const show = () => {
      const words = search.value.toLowerCase().trim();
      const passing = passes[which.value];
      found = data.groups.map((_, place) => place)
        .filter((place) => texts[place].includes(words) && passing(data.groups[place][2]));
      chosen = null;
      box.removeAttribute("aria-activedescendant");
      box.scrollTop = 0;
      rows.style.height = `${found.length * ROW}px`;
      const all = found.length === data.groups.length ? "" : ` of ${count(data.groups.length)}`;
      byId("history-status").textContent = `${count(found.length)}${all} file groups`;
      draw();
    };
    let isAsked = false;
    box.addEventListener("scroll", () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => { isAsked = false; draw(); });
    });
    box.addEventListener("keydown", (event) => {
      const last = found.length - 1;
      const at = chosen ?? -1;
      const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 1);
      const next = {
        ArrowUp: [at - 1, Infinity], ArrowDown: [at + 1, Infinity], Home: [0, Infinity], End: [last, Infinity],
        PageUp: [at - page, Infinity], PageDown: [at + page, Infinity],
        ArrowLeft: [at, slice - 1], ArrowRight: [at, slice + 1],
      }[event.key];
      if (next === undefined || last < 0) return;
      event.preventDefault();
      choose(Math.max(0, Math.min(last, next[0])), next[1]);
    });
    search.addEventListener("input", show);
    which.addEventListener("change", show);
    box.append(rows);
    byId("axis").append(element("span", data.times[0]), element("span", data.times[columns - 1]));
    show();
  };
  if (byId("groups")) drawGroups();

  if (byId("instants")) {
    const marks = [...document.querySelectorAll("svg .instant")];
    const panel = byId("instant");
    const byNumber = new Map(data.instants.map((row) => [row[9].number, row]));
    const tell = (row) => {
      const [requested, action, state, seconds, operation, inserted, updated, deleted, bytes, beside] = row;
      const facts = [
        ["instant", requested], ["action", action], ["state", state], ["requested", beside.requested],
        ["completed", beside.completed],
        [state === "completed" ? "took" : "under way for", seconds === null ? null : duration(seconds)],
        ["operation", operation],
        ["rows", inserted === null ? null
          : `${count(inserted)} inserted, ${count(updated)} updated, ${count(deleted)} deleted`],
        ["written", bytes === null ? null : size(bytes)],
        ...beside.extra,
      ];
      panel.replaceChildren(factList(facts));
    };
    const choose = (place) => {
      marks.forEach((mark, number) => {
        mark.setAttribute("tabindex", number === place ? "0" : "-1");
        mark.classList.toggle("chosen", number === place);
      });
      tell(byNumber.get(Number(marks[place].dataset.instant)));
    };
    marks.forEach((mark, place) => {
      mark.addEventListener("focus", () => choose(place));
      mark.addEventListener("click", () => mark.focus());
      mark.addEventListener("keydown", (event) => {
        const last = marks.length - 1;
        const next = {
          ArrowLeft: Math.max(0, place - 1), ArrowRight: Math.min(last, place + 1), Home: 0, End: last,
        }[event.key];
        if (next !== undefined) {
          event.preventDefault();
          marks[next].focus();
        }
      });
    });
    // In SVG, what listens to focus is reached by Tab, unless it says otherwise.
    marks.forEach((mark, place) => mark.setAttribute("tabindex", place === marks.length - 1 ? "0" : "-1"));
    const newest = [...data.instants].reverse();
    pagedTable(
      "instants", "instants", newest,
      (row) => [...row.slice(0, 3), row[4], ...row[9].extra.flat()].join(" "),
      (row) => link(row[0], () => tell(row)),
    );
  }

  /* Shows the elements that pass, and says how many those are. */
  const filtered = (elements, passes, status, noun) => {
    const left = elements.filter((one) => {
      one.hidden = !passes(one);
      return !one.hidden;
    }).length;
    status.textContent = `${count(left)} of ${count(elements.length)} ${noun}`;
  };

  const boxes = [...document.querySelectorAll("#severities input")];
  const findings = [...document.querySelectorAll("tr[data-severity]")];
  const showFindings = () => {
    const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    filtered(findings, (row) => chosen.has(row.dataset.severity), byId("findings-status"), "findings");
  };
  boxes.forEach((box) => box.addEventListener("change", showFindings));
  if (boxes.length) showFindings();

  const records = [...document.querySelectorAll("article.record")];
  const search = byId("records-search");
  const showRecords = () => {
    const words = search.value.toLowerCase().trim();
    filtered(records, (one) => one.textContent.toLowerCase().includes(words), byId("records-status"), "records");
  };
  if (search) {
    search.addEventListener("input", showRecords);
    showRecords();
  }
})();
