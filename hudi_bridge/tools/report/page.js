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
      if (kind === "share") return share(value);
      if (kind === "text") return element("td", value ?? "");
      return element("td", value === null ? "" : FORMS[kind](value), "number");
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
      const list = element("dl");
      facts.filter((fact) => fact[1] !== null)
        .forEach(([name, value]) => list.append(element("dt", name), element("dd", value)));
      panel.replaceChildren(list);
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
