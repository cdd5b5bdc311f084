// The mutants of a source file, each a change of one operator, number, text, condition, call or statement. The file contains all
// of its mutants, each behind `$mutant(id)`, so that switching between them reloads nothing.
//
// Types, comments and the texts of logged errors have no mutants. A condition has the mutants true and false, and < <= > >= also
// a shifted bound: the same tests would kill the other comparisons. Numbers from 1,000 are only incremented.

import ts from "typescript";

export interface Mutant {
  id: number;
  file: string;
  /** From 1, as editors count. */
  line: number;
  column: number;
  /** The line it is in, without indentation. */
  lineText: string;
  original: string;
  replacement: string;
  /** Whether it has its effect when the file is loaded, and so has to be active before. */
  isStatic: boolean;
  /** The constants whose value it changes, if it is static. */
  constant?: string;
}

/** What replaces a node: an expression, or nothing in place of a statement. */
interface Change {
  id: number;
  text: string | undefined;
}

const ARITHMETIC: Partial<Record<ts.SyntaxKind, string>> = {
  [ts.SyntaxKind.PlusToken]: "-",
  [ts.SyntaxKind.MinusToken]: "+",
  [ts.SyntaxKind.AsteriskToken]: "/",
  [ts.SyntaxKind.SlashToken]: "*",
  [ts.SyntaxKind.PercentToken]: "*",
  [ts.SyntaxKind.PlusEqualsToken]: "-=",
  [ts.SyntaxKind.MinusEqualsToken]: "+=",
};

const BOUND: Partial<Record<ts.SyntaxKind, string>> = {
  [ts.SyntaxKind.LessThanToken]: "<=",
  [ts.SyntaxKind.LessThanEqualsToken]: "<",
  [ts.SyntaxKind.GreaterThanToken]: ">=",
  [ts.SyntaxKind.GreaterThanEqualsToken]: ">",
};

const EQUALITY = [ts.SyntaxKind.EqualsEqualsEqualsToken, ts.SyntaxKind.ExclamationEqualsEqualsToken];

/** Methods by the one that takes their place; an empty text: nothing does, what they were called on stays as it is. */
const METHODS: Record<string, string> = {
  "Math.min": "Math.max",
  "Math.max": "Math.min",
  "Math.floor": "Math.ceil",
  "Math.ceil": "Math.floor",
  "Math.abs": "",
  some: "every",
  every: "some",
  lastIndexOf: "indexOf",
  filter: "",
  slice: "",
  trim: "",
  toLowerCase: "",
  padStart: "",
};

const LARGE = 1_000;

/** All mutants of a file, numbered from `firstId`, and the file's text with all of them in it. */
export function mutate(file: string, text: string, firstId: number): { mutants: Mutant[]; mutated: string } {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const mutants: Mutant[] = [];
  const changes = new Map<ts.Node, Change[]>();

  visit(source);
  return { mutants, mutated: render(source, text, changes) };

  function visit(node: ts.Node): void {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node)) return;
    if (ts.isTypeAliasDeclaration(node)) return;
    if (isAssignedTo(node)) return;
    for (const [part, replacement] of replacementsOf(node)) add(node, part, replacement);
    ts.forEachChild(node, visit);
  }

  /** `part` of `node` (or all of it) is replaced; no replacement: the statement goes. */
  function add(node: ts.Node, part: { start: number; end: number }, replacement: string | undefined): void {
    const host = hostOf(node);
    const { line, character } = source.getLineAndCharacterOfPosition(part.start);
    const id = firstId + mutants.length;
    const isStatic = isRunOnLoad(node);
    const constant = isStatic ? constantOf(node) : undefined;
    mutants.push({
      id,
      file,
      line: line + 1,
      column: character + 1,
      lineText: (text.split("\n")[line] ?? "").trim(),
      original: oneLine(text.slice(part.start, part.end)),
      replacement: oneLine(replacement ?? ""),
      isStatic,
      ...(constant !== undefined && { constant }),
    });
    const before = text.slice(host.getStart(), part.start);
    const after = text.slice(part.end, host.getEnd());
    const change = { id, text: replacement === undefined ? undefined : before + replacement + after };
    changes.set(host, [...(changes.get(host) ?? []), change]);
  }
}

type Replacement = [part: { start: number; end: number }, text: string | undefined];

function replacementsOf(node: ts.Node): Replacement[] {
  const found: Replacement[] = [];
  if (ts.isExpression(node) && isCondition(node)) found.push([all(node), "true"], [all(node), "false"]);
  if (ts.isBinaryExpression(node)) found.push(...ofOperator(node));
  else if (ts.isNumericLiteral(node)) found.push(...ofNumber(node));
  else if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) found.push(...ofText(node));
  else if (ts.isRegularExpressionLiteral(node)) found.push(...ofPattern(node));
  else if (ts.isCallExpression(node)) found.push(...ofCall(node));
  else if (node.kind === ts.SyntaxKind.TrueKeyword) found.push([all(node), "false"]);
  else if (node.kind === ts.SyntaxKind.FalseKeyword) found.push([all(node), "true"]);
  else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.MinusToken)
    found.push([all(node), node.operand.getText()]);
  else if (ts.isArrayLiteralExpression(node) && node.elements.length > 0) found.push([all(node), "[]"]);
  else if (isRemovable(node)) found.push([all(node), undefined]);
  if (node.parent !== undefined && ts.isSpreadAssignment(node.parent)) found.push([all(node), "{}"]);
  if (node.parent !== undefined && ts.isSpreadElement(node.parent)) found.push([all(node), "[]"]);
  const question = questionOf(node);
  if (question !== undefined) found.push(question);
  return isOfError(node) ? [] : found;
}

function ofOperator({ operatorToken, left, right }: ts.BinaryExpression): Replacement[] {
  const { kind } = operatorToken;
  if (kind === ts.SyntaxKind.QuestionQuestionToken) {
    const from = left.getStart();
    const to = right.getEnd();
    return [
      [{ start: from, end: to }, left.getText()],
      [{ start: from, end: to }, right.getText()],
    ];
  }
  const other = ARITHMETIC[kind] ?? BOUND[kind];
  return other === undefined ? [] : [[all(operatorToken), other]];
}

function ofNumber(node: ts.NumericLiteral): Replacement[] {
  const value = Number(node.getText().replaceAll("_", ""));
  const greater: Replacement = [all(node), `${value + 1}`];
  return value === 0 || value >= LARGE ? [greater] : [greater, [all(node), `${value - 1}`]];
}

function ofText(node: ts.StringLiteralLike | ts.TemplateExpression): Replacement[] {
  const { parent } = node;
  if (ts.isPropertyAssignment(parent) && parent.name === node) return [];
  if (ts.isElementAccessExpression(parent) || ts.isTaggedTemplateExpression(parent)) return [];
  // What is looked for `in` an object, and what is compared: the condition has its own mutants.
  if (ts.isBinaryExpression(parent) && isComparison(parent)) return [];
  if (ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.InKeyword) return [];
  return [[all(node), node.getText().length > 2 ? '""' : '"mutated"']];
}

function ofPattern(node: ts.RegularExpressionLiteral): Replacement[] {
  const text = node.getText();
  const others = [text.replace("/^", "/"), text.replace(/\$\//, "/"), text.replace(/\/[a-z]+$/, "/")];
  return others.filter((other) => other !== text).map((other) => [all(node), other]);
}

function ofCall(node: ts.CallExpression): Replacement[] {
  const { expression } = node;
  if (!ts.isPropertyAccessExpression(expression)) return [];
  const name = expression.name.text;
  const other = METHODS[`${expression.expression.getText()}.${name}`] ?? METHODS[name];
  if (other === undefined) return [];
  if (other.startsWith("Math.")) return [[all(expression), other]];
  if (other !== "") return [[all(expression.name), other]];
  const receiver = expression.expression.getText() === "Math" ? node.arguments[0] : expression.expression;
  return receiver === undefined ? [] : [[all(node), receiver.getText()]];
}

/** A question mark that keeps an access from failing. */
function questionOf(node: ts.Node): Replacement | undefined {
  const isAccess =
    ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node) || ts.isCallExpression(node);
  if (!isAccess || node.questionDotToken === undefined) return undefined;
  return [all(node.questionDotToken), ts.isPropertyAccessExpression(node) ? "." : " "];
}

/** Whether an expression decides: all of what is asked by if, while, ?:, &&, || and !, and every comparison. */
function isCondition(node: ts.Expression): boolean {
  if (ts.isParenthesizedExpression(node) || node.kind === ts.SyntaxKind.TrueKeyword) return false;
  if (node.kind === ts.SyntaxKind.FalseKeyword) return false;
  // Their operands have the same mutants.
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken) return false;
  if (ts.isBinaryExpression(node) && isLogical(node)) return false;
  // A switch has its own where it is defined.
  if (ts.isIdentifier(node) && /^[A-Z_]+$/.test(node.text)) return false;
  return (ts.isBinaryExpression(node) && isComparison(node)) || isAsked(node);
}

/** Whether it stands where a yes or no is wanted. */
function isAsked(node: ts.Expression): boolean {
  const { parent } = node;
  if (ts.isParenthesizedExpression(parent)) return isAsked(parent);
  if (ts.isIfStatement(parent) || ts.isWhileStatement(parent) || ts.isDoStatement(parent))
    return parent.expression === node;
  if (ts.isConditionalExpression(parent)) return parent.condition === node;
  if (ts.isForStatement(parent)) return parent.condition === node;
  if (ts.isPrefixUnaryExpression(parent)) return parent.operator === ts.SyntaxKind.ExclamationToken;
  if (ts.isBinaryExpression(parent) && isLogical(parent)) return parent.left === node || isAsked(parent);
  return false;
}

function isLogical({ operatorToken: { kind } }: ts.BinaryExpression): boolean {
  return kind === ts.SyntaxKind.AmpersandAmpersandToken || kind === ts.SyntaxKind.BarBarToken;
}

function isComparison({ operatorToken: { kind } }: ts.BinaryExpression): boolean {
  return BOUND[kind] !== undefined || EQUALITY.includes(kind) || kind === ts.SyntaxKind.InstanceOfKeyword;
}

/** Whether a statement can go and leave a program that still means something. */
function isRemovable(node: ts.Node): boolean {
  if (ts.isExpressionStatement(node)) return !node.getText().startsWith("super(");
  if (ts.isReturnStatement(node)) return node.expression === undefined;
  return ts.isThrowStatement(node) || ts.isContinueStatement(node) || ts.isBreakStatement(node);
}

/** The text of an error: it is logged, and nobody acts by it. */
function isOfError(node: ts.Node): boolean {
  return (
    node.parent !== undefined &&
    ts.isNewExpression(node.parent) &&
    node.parent.expression.getText().endsWith("Error")
  );
}

/**
 * The node that is replaced as a whole, instead of `node` that is a part of it: `a?.b` must stay in one piece with what is
 * read from it, because that is skipped with it.
 */
function hostOf(node: ts.Node): ts.Node {
  let host = node;
  while (isPartOfChain(host)) host = host.parent;
  return host;
}

function isPartOfChain(node: ts.Node): boolean {
  const { parent } = node;
  const reads =
    ts.isPropertyAccessExpression(parent) ||
    ts.isElementAccessExpression(parent) ||
    ts.isCallExpression(parent);
  return reads && parent.expression === node && (parent.flags & ts.NodeFlags.OptionalChain) !== 0;
}

/** `[first] = list` assigns to what looks like a list. */
function isAssignedTo(node: ts.Node): boolean {
  const { parent } = node;
  return (
    ts.isArrayLiteralExpression(node) &&
    ts.isBinaryExpression(parent) &&
    parent.left === node &&
    parent.operatorToken.kind === ts.SyntaxKind.EqualsToken
  );
}

function isRunOnLoad(node: ts.Node): boolean {
  for (let outer = node.parent; outer !== undefined; outer = outer.parent) {
    if (ts.isFunctionLike(outer) || ts.isPropertyDeclaration(outer)) return false;
  }
  return true;
}

/** The name of the constant in whose value a node is. */
function constantOf(node: ts.Node): string | undefined {
  for (let outer = node; outer !== undefined; outer = outer.parent) {
    if (ts.isVariableDeclaration(outer)) return outer.name.getText();
  }
  return undefined;
}

/** The text of a node, with the changes of all that is in it. */
function render(node: ts.Node, text: string, changes: Map<ts.Node, Change[]>): string {
  let rendered = "";
  let at = node.getStart();
  if (ts.isSourceFile(node)) at = 0;
  ts.forEachChild(node, (child) => {
    if (child.getStart() < at) return;
    rendered += text.slice(at, child.getStart()) + render(child, text, changes);
    at = child.getEnd();
  });
  rendered += text.slice(at, node.getEnd());
  const own = changes.get(node);
  if (own === undefined) return rendered;
  if (own.some((change) => change.text === undefined)) {
    const isActive = own.map(({ id }) => `$mutant(${id})`).join(" || ");
    return `{ if (!(${isActive})) { ${rendered} } }`;
  }
  const cases = own.map((change) => `$mutant(${change.id}) ? (${change.text}) : `).join("");
  return `(${cases}(${rendered}))`;
}

function all(node: ts.Node): { start: number; end: number } {
  return { start: node.getStart(), end: node.getEnd() };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
