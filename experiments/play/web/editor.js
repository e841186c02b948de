// The editor, from CodeMirror 6; `make playground` bundles it.

import { python } from "@codemirror/lang-python";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup } from "codemirror";

const setBad = StateEffect.define();

const badLine = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setBad)) continue;
      const { doc } = transaction.state;
      if (effect.value === null || effect.value > doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: "cm-bad-line" }).range(doc.line(effect.value).from)]);
    }
    return marks.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "light-dark(#8839a6, #d6a4ee)" },
  { tag: [tags.string, tags.docString], color: "light-dark(#2f6f3e, #94d3a2)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "light-dark(#a5480a, #f0b27a)" },
  { tag: [tags.definition(tags.variableName), tags.definition(tags.className), tags.function(tags.variableName)], color: "light-dark(#0a5c96, #7cc4f2)" },
]);

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--back)", color: "var(--text)" },
  ".cm-content": { caretColor: "var(--text)", fontFamily: "ui-monospace, monospace" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--pane)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "light-dark(#0072b210, #56b4e914)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "light-dark(#b9dcf2, #28506b) !important" },
});

export class Editor {
  constructor(place, onRun) {
    const run = () => (onRun(), true);
    this.view = new EditorView({
      parent: place,
      state: EditorState.create({
        extensions: [
          keymap.of([
            { key: "Mod-Enter", run },
            { key: "Mod-s", run },
          ]),
          basicSetup,
          python(),
          indentUnit.of("    "),
          syntaxHighlighting(colours),
          theme,
          badLine,
          EditorView.contentAttributes.of({ "aria-label": "source of the algorithm" }),
        ],
      }),
    });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  set text(text) {
    const { doc } = this.view.state;
    this.view.dispatch({ changes: { from: 0, to: doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true });
  }

  // Highlights a line (from 1), or none.
  bad(line) {
    const known = line !== null && line <= this.view.state.doc.lines ? line : null;
    const effects = [setBad.of(known)];
    if (known) effects.push(EditorView.scrollIntoView(this.view.state.doc.line(known).from, { y: "center" }));
    this.view.dispatch({ effects });
  }
}
