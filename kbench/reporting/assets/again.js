// The command that measures a row again. Names come from files: the reader sees the command before a shell does.

const UNSPEAKABLE = /[,|*?=<>!\[\]]|\p{Cc}/u;

/** A word for a POSIX shell. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command that measures a row of the table again; "" for a control, for a row that kbench cannot measure again, and for a name
 * that no term can have. */
function commandAgain(row) {
  if (rows.role[row] !== "provider" || UNSPEAKABLE.test(rows.curve[row].replace(/\[[^[\]]*\]$/, ""))) return "";
  const file = content.files.find((each) => each.file === rows.file[row]);
  if (!file.is_repeatable) return "";
  const names = [...content.rows.axes, "dtype"];
  const terms = names.filter((name) => rows[name][row] != null && rows[name][row] !== "").map((name) => `${name}=${plainly(rows[name][row])}`);
  return `kbench run --repeat ${quoted(file.path)} --row ${quoted([`provider=${rows.curve[row]}`, ...terms].join(","))}`;
}

/** A line that shows the command of the row that the reader chose, and `show` to choose it. */
function againLine() {
  const line = el("p", { class: "count", id: "again", "aria-live": "polite" });
  return {
    line,
    show(row) {
      const command = commandAgain(row);
      const copy = navigator.clipboard ? el("button", { type: "button", click: () => navigator.clipboard.writeText(command) }, "copy") : null;
      line.replaceChildren("Measure this row again: ", el("code", {}, command), " ", copy ?? "");
    },
  };
}
