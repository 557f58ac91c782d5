package policy

import (
	"fmt"
	"path"
	"strings"
	"sync"
)

// handlers are the parts of the tables that a line cannot say, by attribute.
func handlers() map[string]func(*call, *spec, parsed) {
	return map[string]func(*call, *spec, parsed){
		"cat": runCat, "xmllint": runXmllint, "tr": runTr, "decode": runDecode, "hex": runHex, "rev": runRev,
		"grep": runGrep, "jq": runJq, "yq": runYq, "gofmt": runGofmt, "mktemp": runMktemp,
		"tee": runTee, "cp": runCp, "mv": runMv, "install": runInstall, "ln": runLn, "rm": runRm, "delete": runDelete, "chmod": runChmod, "owner": runOwner,
		"split": runSplit, "csplit": runCsplit, "patch": runPatch, "dd": runDd, "pack": runPack, "zip": runZip,
		"unzip": runUnzip, "sevenzip": runSevenZip, "ar": runAr, "cpio": runCpio, "objwrite": runObjWrite,
		"sed": runSed, "awk": runAwk, "find": runFind, "tar": runTar, "risky-run": runRiskyRun, "pager": runPager, "manual": runManual,
		"date": runDate, "ps": runPs, "printenv": runPrintenv, "risky": runRiskyRead,
		"wrap": runWrap, "coverwrap": runCoverWrap, "envlist": runEnvList, "gotestsum": runGotestsum,
		"golangci": runGolangci, "sphinx": runSphinx, "env": runEnv, "busybox": runBusybox, "xargs": runXargs,
		"watch": runWatch, "flock": runFlock, "script": runScriptCmd, "parallel": runParallel, "strings": runStrings,
		"sudo": runSudo, "su": runSu, "trace": runTrace, "riskywrap": runRiskyWrap, "escape": runEscape,
		"shell": runShell, "ssh": runSSH, "tmux": runTmux, "envrun": runEnvRun, "at": runAt,
		"python": runPython, "interp": runInterp, "node": runNode, "editor": runEditor, "java": runJava, "jar": runJar, "sql": runSQL, "calc": runCalc,
		"git": runGit, "make": runMake, "npm": runNpm, "npx": runNpx, "go": runGo, "cargo": runCargo,
		"targets": runTargets, "jsbuild": runJSBuild, "jstasks": runJSTasks, "coverage": runCoverage, "pytest": runPytest,
		"gotest": runGoBuild, "gonew": runGoBuild, "golist": runGoBuild, "gofmtpkgs": runGoBuild, "gomod": runGoMod,
		"gowork": runGoWork, "gotool": runGoTool, "goclean": runGoClean, "gorisky": runGoRisky,
		"cargofmt": runCargoFmt, "ninja": runNinja, "cmake": runCmake, "meson": runMeson, "bazel": runBazel,
		"mvn": runMvn, "gradle": runGradle, "dotnet": runDotnet, "swift": runSwift, "zig": runZig, "mix": runMix,
		"cc": runCC, "compiler": runCompiler, "curl": runCurl, "wget": runWget, "nc": runNc, "copyout": runCopyOut,
		"message": runMessage, "keys": runKeys, "remote": runRemote, "database": runDatabase,
		"docker": runDocker, "system": runSystem, "packages": runPackages, "critical-host": runCriticalHost,
		"services": runServices, "disks": runDisks, "kernel": runKernel, "accounts": runAccounts,
		"killers": runKillers, "hostset": runHostSet, "miner": runMiner, "scanner": runScanner, "sshkeys": runSSHKeys,
		"net": runNetLook, "crontab": runCrontab, "ip": runIP, "openssl": runOpenssl, "rpm": runRpm,
		"pkgq": runPkgQuery,
	}
}

// tables are the compiled tables, shared by all policies and never changed.
type tables struct {
	specs  map[string]*spec
	git    map[string]*spec
	golang map[string]*spec
	cargo  map[string]*spec
	looks  map[string]*spec

	openssl map[string]*spec
}

var loadTables = sync.OnceValue(func() *tables {
	t := &tables{specs: map[string]*spec{}, git: map[string]*spec{}, golang: map[string]*spec{}, cargo: map[string]*spec{}, looks: map[string]*spec{}, openssl: map[string]*spec{}}
	h := handlers()
	for _, text := range []string{readTable, writeTable, wrapTable, langTable, toolTable, remoteTable} {
		addTable(t.specs, text, h)
	}
	addTable(t.git, gitTable, h)
	addTable(t.golang, goTable, h)
	addTable(t.cargo, cargoTable, h)
	addTable(t.looks, lookTable, nil)
	addTable(t.openssl, opensslTable, nil)
	for _, sp := range t.golang {
		if sp.run == nil && sp.attr("build") {
			sp.run = runGoBuild
		}
	}
	return t
})

// addTable compiles a table's lines. The tables are part of the program, so a
// fault in one is a fault in the program.
func addTable(into map[string]*spec, text string, h map[string]func(*call, *spec, parsed)) {
	for _, line := range strings.Split(unwrap(text), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		names, sp, err := parseSpec(padColumns(line))
		if err != nil {
			panic(fmt.Sprintf("policy: table: %v", err))
		}
		for a := range sp.attrs {
			if f, ok := h[a]; ok {
				sp.run = f
			}
		}
		for _, n := range names {
			into[n] = sp
		}
	}
}

// unwrap joins a line that begins with a tab to the one before.
func unwrap(text string) string { return strings.ReplaceAll(text, "\n\t", " ") }

// padColumns lets a line leave its last column, or an attribute column, empty.
func padColumns(line string) string {
	line = strings.ReplaceAll(line, " |  | ", " | - | ")
	line = strings.ReplaceAll(line, " | | ", " | - | ")
	if strings.HasSuffix(line, " |") {
		line += " "
	}
	for strings.Count(line, " | ") < 3 {
		line += " | "
	}
	return line
}

func mustSpec(line string) *spec {
	_, sp, err := parseSpec(padColumns(unwrap(line)))
	if err != nil {
		panic(fmt.Sprintf("policy: table: %v", err))
	}
	return sp
}

func (p *Policy) spec(name string) *spec { return p.tables.specs[name] }

// knows reports whether a word names a command.
func (p *Policy) knows(name string) bool {
	if name == "" {
		return false
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 && in(trustedDirs, path.Clean(name[:max(i, 1)])) {
		name = name[i+1:]
	}
	if _, ok := p.tables.specs[name]; ok {
		return true
	}
	_, ok := p.builtins[name]
	return ok
}

func cleanPath(p string) string { return path.Clean(p) }

func runRiskyRead(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s shows the system's records", c.by())
}

// runPrintenv judges printenv: everything, or variables by name.
func runPrintenv(c *call, _ *spec, _ parsed) {
	c.out = flow{secret: true, from: c.name}
	for _, w := range c.args {
		if w.is("-0", "--null") {
			continue
		}
		if !w.lit || secretName(w.text) {
			c.raise(Risky, "%s prints `%s`, which may hold a credential", c.by(), w.show())
			return
		}
		c.out = flow{}
	}
	if c.out.secret {
		c.raise(Risky, "%s shows every environment variable, which may hold credentials", c.by())
	}
}

// runPager judges pagers: +command runs one of their own commands at the start.
func runPager(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		if strings.HasPrefix(w.text, "+") {
			c.raise(Risky, "%s is given the command `%s`", c.by(), w.show())
			c.editorCommand(w.script()[1:])
		}
	}
}

// runManual judges man and info: a page that is named by its path may include files.
func runManual(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		if !w.lit || strings.Contains(w.text, "/") {
			c.raise(Risky, "%s shows `%s`, which may include other files", c.by(), w.show())
		}
	}
}

// runXmllint judges xmllint, which reads addresses as it does files.
func runXmllint(c *call, _ *spec, p parsed) {
	for _, w := range append(p.operands[:len(p.operands):len(p.operands)], p.values("--schema", "--dtdvalid", "--relaxng")...) {
		if strings.Contains(w.text, "://") {
			c.host(w)
			c.raise(Risky, "%s talks to another machine", c.by())
		}
	}
}

// runDate: an operand that is no format sets the clock.
func runDate(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		if t := w.text; !strings.HasPrefix(t, "+") {
			c.raise(Risky, "%s sets the clock to `%s`", c.by(), w.show())
		}
	}
}

// runPs: the letter e in ps's options without a dash shows environments.
func runPs(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		if strings.Contains(w.text, "e") || !w.lit && !w.num {
			c.raise(Risky, "%s may show the environment of processes, which may hold credentials", c.by())
		}
	}
}
