package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/migrate"
	"github.com/routesrv/routesrv/shadowdiff"
)

// migrateOptions are the settings of routesrv migrate.
type migrateOptions struct {
	migrate.Options
	dir, deployment string
}

func newMigrateParser() (*migrateOptions, *config.Parser) {
	o := &migrateOptions{}
	p := config.NewParser(config.Command{
		Name: "routesrv migrate", Args: "FILE", MinArgs: 1, MaxArgs: 1, Asking: true,
	})
	p.Ask("output", config.Text("DIR", &o.dir, ""))
	p.Ask("deployment", config.Text("NAME", &o.deployment, ""))
	p.Ask("container", config.Text("NAME", &o.Container, ""))
	p.Ask("base", config.Text("PATH|URL", &o.Base, defaultBase()))
	p.Ask("image", config.Text("IMAGE", &o.Image, ""))
	p.Ask("prefix", config.Text("TEXT", &o.Prefix, ""))
	p.Ask("monitoring-namespace", config.Text("NAMESPACE", &o.Monitoring, "monitoring"))
	p.Ask("leave-out", config.Repeated("FLAG", func(s string) error {
		o.LeaveOut = append(o.LeaveOut, strings.TrimLeft(s, "-"))
		return nil
	}))
	return o, p
}

// migrateFlags documents the flags of the command.
func migrateFlags() []*config.Flag {
	_, p := newMigrateParser()
	return p.Flags()
}

// defaultBase returns the URL of the base for this version.
func defaultBase() string {
	ref := "main"
	if version != "" {
		ref = "v" + strings.TrimPrefix(version, "v")
	}
	return "https://github.com/routesrv/routesrv//deploy/kustomize/base?ref=" + ref
}

// runMigrate writes an overlay for a Deployment of Skipper's route server.
func runMigrate(_ context.Context, args []string, env config.Env, std config.Stdio) int {
	o, p := newMigrateParser()
	places, warnings, err := p.Parse(args, env)
	if status, ok := program().Configured(warnings, err, std); !ok {
		return status
	}
	program().PrintWarnings(warnings, std)
	if err := o.run(places[0], std); err != nil {
		fmt.Fprintln(std.Err, "routesrv migrate:", shadowdiff.PrintableLines(err.Error()))
		return config.ExitUnusable
	}
	return config.ExitOK
}

func (o *migrateOptions) run(place string, std config.Stdio) error {
	if o.dir == "" {
		return errors.New("-o is not set: name the folder to write")
	}
	if err := o.localBase(); err != nil {
		return err
	}
	in, err := migrate.Parse(place, std.In, o.deployment)
	if err != nil {
		return err
	}
	overlay, err := migrate.Make(in, o.Options)
	if overlay != nil {
		program().PrintWarnings(overlay.Warnings, std)
	}
	if err != nil {
		return err
	}
	if err := o.write(overlay); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "%s: %d files; %d settings are dropped or changed: NOTES.md lists them and the next steps\n",
		o.dir, len(overlay.Files), len(overlay.NotCarried))
	return nil
}

// localBase makes a local base path relative to the overlay, as kustomize requires.
func (o *migrateOptions) localBase() error {
	if strings.Contains(o.Base, "://") || strings.Contains(o.Base, "?ref=") {
		return nil
	}
	if _, err := os.Stat(filepath.Join(o.Base, "kustomization.yaml")); err != nil {
		return fmt.Errorf("--base %s: %w", o.Base, err)
	}
	base, err := realPath(o.Base)
	if err != nil {
		return fmt.Errorf("--base %s: %w", o.Base, err)
	}
	parent, err := realPath(filepath.Dir(filepath.Clean(o.dir)))
	if err != nil {
		return fmt.Errorf("-o %s: %w", o.dir, err)
	}
	if o.Base, err = filepath.Rel(filepath.Join(parent, filepath.Base(filepath.Clean(o.dir))), base); err != nil {
		return fmt.Errorf("--base: %w", err)
	}
	o.Base = filepath.ToSlash(o.Base)
	return nil
}

// realPath returns an absolute path without symbolic links, because a relative path through a link would lead elsewhere.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// write writes the files of the overlay.
func (o *migrateOptions) write(overlay *migrate.Overlay) error {
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		return fmt.Errorf("make a folder for the overlay: %w", err)
	}
	for name, content := range overlay.Files {
		if err := os.WriteFile(filepath.Join(o.dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
