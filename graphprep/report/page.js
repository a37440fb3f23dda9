// A click on a heading sorts its table by that column: numbers the greatest first, then the other way round.
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const key = (row) => {
        const data = row.cells[column].querySelector("data");
        const number = Number(data ? data.value : row.cells[column].textContent);
        return Number.isNaN(number) ? row.cells[column].textContent : number;
      };
      const rows = [...body.rows].map((row) => [key(row), row]);
      const numbers = rows.every(([value]) => typeof value === "number");
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : numbers;
      rows.sort(([a], [b]) => (numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true })));
      if (down) rows.reverse();
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// A table of many rows has a field above it: rows that lack one of its words are hidden.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const all = body.rows.length;
  if (all < 8) continue;
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "filter rows";
  field.setAttribute("aria-label", `Filter rows of ${table.caption.firstChild.textContent.trim()}`);
  const shown = document.createElement("span");
  shown.setAttribute("role", "status");
  const filter = document.createElement("div");
  filter.className = "filter";
  filter.append(field, shown);
  table.closest(".scroll").before(filter);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of body.rows) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += !row.hidden;
    }
    shown.textContent = words.length ? `${left} of ${all} rows` : "";
  });
}

// What a mark of a drawing stands for, and the whole value of a rounded figure, beside the pointer.
for (const title of document.querySelectorAll("svg g > title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.("[data-tip], data");
  const text = mark && (mark.dataset.tip ?? (mark.value !== mark.textContent ? mark.value : ""));
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
  tip.style.top = `${event.clientY + 20 + height > innerHeight ? event.clientY - height - 8 : event.clientY + 16}px`;
});
document.addEventListener("pointerleave", () => { tip.hidden = true; });
