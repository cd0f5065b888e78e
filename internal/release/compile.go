package release

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Compile writes the binaries for a Linux architecture and the licenses into a folder. The binaries are static, and
// contain no paths, names or times of the machine that builds them.
func Compile(ctx context.Context, c Config, arch, out string) error {
	return compile(ctx, c, platform{"linux", arch}, Binaries[:], out)
}

// platform is the target of binaries, in Go's terms.
type platform struct{ os, arch string }

// file returns the name of a program on the platform.
func (p platform) file(program string) string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

// compile writes binaries for a platform and the licenses into a folder.
func compile(ctx context.Context, c Config, p platform, binaries []string, out string) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + c.Version, "-o", out + "/"}
	for _, b := range binaries {
		args = append(args, "./cmd/"+b)
	}
	if _, err := goCommand(ctx, c, p, args...); err != nil {
		return err
	}
	for _, b := range binaries {
		// The linker applies the umask.
		if err := os.Chmod(filepath.Join(out, p.file(b)), 0o755); err != nil {
			return err
		}
	}
	license, err := os.ReadFile(filepath.Join(c.Source, licenseFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, licenseFile), license, 0o644); err != nil {
		return err
	}
	return writeNotices(ctx, c, p, binaries, out)
}

// goCommand runs go in the sources, for a platform. It ignores environment variables that would change how Go builds.
func goCommand(ctx context.Context, c Config, p platform, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.Source
	cmd.Env = append(os.Environ(),
		"CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off",
		"GOAMD64=v1", "GOARM64=v8.0")
	cmd.Env = append(cmd.Env, c.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s for %s/%s: %w\n%s", args[0], p.os, p.arch, err, &stderr)
	}
	return out, nil
}

// module is a module whose code is in a binary.
type module struct{ path, version, sum string }

func (m module) String() string { return m.path + "@" + m.version }

// modules returns the modules in the binaries of a folder, sorted, without this module.
func modules(dir string, p platform, binaries []string) (all []module, goVersion string, err error) {
	for _, b := range binaries {
		info, err := buildinfo.ReadFile(filepath.Join(dir, p.file(b)))
		if err != nil {
			return nil, "", err
		}
		goVersion = info.GoVersion
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			all = append(all, module{d.Path, d.Version, d.Sum})
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), goVersion, nil
}
