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
