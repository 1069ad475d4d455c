"""Options of commands that say how remote uris are reached. They become `StoreOptions` of the uris of the command.

Secrets are no arguments: other users of the machine can read the arguments of a process. So headers come from variables
of the environment, and keys from the environment, a profile or a provider."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

import damacy
from damacy._cli.console import refuse
from damacy._stores.mounts import below

Anonymous = Annotated[bool, typer.Option("--anonymous", help="Remote uris: never sign requests.")]
Endpoint = Annotated[str, typer.Option(help="s3, gs: the url of a compatible service.")]
Region = Annotated[str, typer.Option(help="s3: where the bucket is.")]
Profile = Annotated[str, typer.Option(help="s3: a profile of the files of AWS.")]
Credentials = Annotated[str, typer.Option(help="s3: a provider of credentials: botocore.")]
HeaderEnv = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VAR", help="http(s): a header, and the variable that holds its value.")
]
Option = Annotated[list[str] | None, typer.Option(metavar="FIELD=VALUE", help="Any other field of StoreOptions.")]
References = Annotated[
    str, typer.Option(metavar="DOCUMENT", help="Uris are paths in this document of references (kerchunk).")
]
Allow = Annotated[
    list[str] | None, typer.Option(metavar="PREFIX", help="The document may also name objects below this uri.")
]

_PARAMETERS: dict[str, tuple[Any, Any]] = {
    "anonymous": (Anonymous, False),
    "endpoint": (Endpoint, ""),
    "region": (Region, ""),
    "profile": (Profile, ""),
    "credentials": (Credentials, ""),
    "header_env": (HeaderEnv, None),
    "option": (Option, None),
    "references": (References, ""),
    "allow": (Allow, None),
}
_NO_ARGUMENTS = ("access_key_id", "secret_access_key", "session_token", "bearer_token", "headers")


def takes_remote(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options, for its parameters `uri` and `also`."""
    signature = inspect.signature(command)
    hints = typing.get_type_hints(command, include_extras=True)

    @functools.wraps(command)
    def with_remote(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in _PARAMETERS}
        if any(given.values()):
            as_json = arguments.get("as_json", False)
            document, allow = given.pop("references"), given.pop("allow")
            if allow and not document:
                refuse("--allow is for the urls in a document: name it by --references", as_json)
            options = _options_of(given, as_json) if any(given.values()) else None
            uris = [arguments["uri"], *(arguments.get("also") or [])]
            try:
                if document:
                    uris = _paths_in(document, tuple(allow or ()), options, uris)
                    arguments["uri"] = uris[0]
                    if "also" in arguments:
                        arguments["also"] = uris[1:]
                elif options:
                    for uri in uris:
                        if uri and "://" in uri:
                            below(options, uri)
            except damacy.DamacyError as error:
                refuse(str(error), as_json)
        command(**arguments)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _PARAMETERS.items()
    ]
    own = [parameter.replace(annotation=hints[name]) for name, parameter in signature.parameters.items()]
    whole = signature.replace(parameters=own + added)
    with_remote.__signature__ = whole  # type: ignore[attr-defined]  # functions have none by their type
    with_remote.__annotations__ = hints | {name: annotation for name, (annotation, _) in _PARAMETERS.items()}
    return with_remote


def _paths_in(
    document: str, allow: tuple[str, ...], options: damacy.StoreOptions | None, paths: list[str]
) -> list[str]:
    """The uris of paths in a document of references. The options are for the document's origin or bucket."""
    scheme, found, rest = document.partition("://")
    if options and found and scheme != "file":
        damacy.mount(f"{scheme}://{rest.partition('/')[0]}/", options)
    store = damacy.ReferenceStore(document, allow)
    return [below(store, path) for path in paths]


def _options_of(given: dict[str, Any], as_json: bool) -> damacy.StoreOptions:
    fields: dict[str, Any] = {"anonymous": True} if given["anonymous"] else {}
    for name in ("endpoint", "region", "profile", "credentials"):
        if given[name]:
            fields[name] = given[name]
    headers = []
    for pair in given["header_env"] or []:
        name, _, variable = pair.partition("=")
        if not name or variable not in os.environ:
            refuse(f"--header-env {name}: the environment has no variable {variable!a}", as_json)
        headers.append((name, os.environ[variable]))
    if headers:
        fields["headers"] = tuple(headers)
    for pair in given["option"] or []:
        name, _, value = pair.partition("=")
        fields[name] = _value_of(name, value, as_json)
    try:
        return damacy.StoreOptions(**fields)
    except (TypeError, ValueError, damacy.DamacyError) as error:
        refuse(str(error), as_json)


def _value_of(name: str, value: str, as_json: bool) -> Any:
    known = {field.name: field.default for field in dataclasses.fields(damacy.StoreOptions)}
    if name not in known:
        refuse(f"--option: StoreOptions has no field {name!a}", as_json)
    if name in _NO_ARGUMENTS:
        refuse(f"--option {name}: secrets are no arguments: use the environment, --profile or --header-env", as_json)
    if name == "proxy" and "@" in value:
        refuse("--option proxy: user info is a secret: use the environment", as_json)
    default = known[name]
    try:
        if isinstance(default, bool) or name == "anonymous":
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, int):
            return int(value)
        if isinstance(default, float):
            return float(value)
        if name == "absent_status":
            return tuple(int(each) for each in value.split(","))
    except (KeyError, ValueError):
        refuse(f"--option {name}: {value!a} is not a value of this field", as_json)
    return value
