"use strict";
// Sorting and filtering; every page reads without it.
(() => {
  const key = (row, index, kind) => {
    const cell = row.cells[index];
    const text = cell.dataset.value ?? cell.textContent.trim();
    if (kind === "text") return text;
    const number = parseFloat(text);
    return Number.isNaN(number) ? Infinity : number;
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, index) => {
      const kind = head.dataset.sort;
      if (!kind) return;
      // No button element: browsers leave those out where a head is printed again on the next page.
      const button = document.createElement("span");
      button.setAttribute("role", "button");
      button.tabIndex = 0;
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        button.click();
      });
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        const rows = [...table.tBodies[0].rows].map((row) => [key(row, index, kind), row]);
        rows.sort(([a], [b]) =>
          kind === "text"
            ? sign * a.localeCompare(b, undefined, { numeric: true })
            : a === b ? 0 : a === Infinity ? 1 : b === Infinity ? -1 : sign * (a - b));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  for (const section of document.querySelectorAll("[data-filterable]")) {
    const bar = section.querySelector(".filters");
    const rows = [...section.querySelectorAll("tbody tr[data-text]")];
    if (!bar || rows.length < 2) continue;
    bar.hidden = false;
    const apply = () => {
      const words = bar.querySelector("[data-filter=text]").value.toLowerCase().split(/\s+/);
      const boxes = [...bar.querySelectorAll("[data-filter=verdict]")];
      const verdicts = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      let shown = 0;
      for (const row of rows) {
        const text = row.dataset.text.toLowerCase();
        const fits = words.every((word) => text.includes(word))
          && (boxes.length === 0 || verdicts.has(row.dataset.verdict));
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      bar.querySelector("[data-count]").textContent = `${shown} of ${rows.length}`;
    };
    bar.addEventListener("input", apply);
    apply();
  }
})();
